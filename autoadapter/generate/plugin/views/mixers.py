"""Which classes a module needs for its mixers: one for those that differ only in numbers."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from autoadapter.artifacts.decoder import Attention, DecoderSpec, Mlp, Moe
from autoadapter.errors import UnsupportedModelError
from autoadapter.generate.plugin.views.attention import AttentionView, shape, without_numbers
from autoadapter.generate.plugin.views.latent import LatentView
from autoadapter.generate.plugin.views.mlp import MlpView
from autoadapter.generate.plugin.views.moe import moe_views
from autoadapter.generate.plugin.views.recurrent import mamba2_view, short_conv_view

Place = tuple[int, int]
"""Kind and branch."""
SUFFIXES = {"attention": "Attention", "latent_attention": "Attention", "mlp": "MLP", "moe": "MoE"}


class MixerView(Protocol):
    """What the module needs to know of a mixer's class."""

    @property
    def class_name(self) -> str:
        """What it is called."""

    @property
    def kind(self) -> str:
        """Which macro renders it."""

    @property
    def imports(self) -> frozenset[tuple[str, str]]:
        """Modules and names; the name is empty for the module itself."""


@dataclass(frozen=True)
class Mixers:
    """The classes of a module's mixers."""

    views: tuple[Any, ...]
    names: Mapping[Place, str]
    """The class of each branch."""

    @classmethod
    def of(cls, spec: DecoderSpec, prefix: str, vllm_version: str) -> "Mixers":
        """All mixers of a spec.

        Raises:
            UnsupportedModelError: a mixer that cannot be rendered.
        """
        groups = dict(sorted(_grouped(spec).items(), key=lambda group: group[0][0] == "moe"))
        names: dict[Place, str] = {}
        mlps: dict[str, str] = {}
        views: list[MixerView] = []
        shared = _shared_keys(spec)
        for (mixer, key), members in groups.items():
            alone = sum(1 for other, _ in groups if SUFFIXES.get(other) == SUFFIXES.get(mixer)) == 1
            name = _class_name(spec, prefix, mixer, members, alone)
            name = name if name not in names.values() else f"{name}{len(views) + 1}"
            by_kind = {kind: mixer for (kind, _), mixer in members.items()}
            names |= dict.fromkeys(members, name)
            if mixer == "moe":
                moe = next(iter(by_kind.values()))
                mlp_class = mlps.get(_key(moe.shared.mlp)) if moe.shared else None
                views += moe_views(moe, spec, name, vllm_version, mlp_class)
            elif mixer == "mlp":
                mlps[key] = name
                views.append(MlpView.of(by_kind, spec, name, is_sized=key in shared))
            else:
                views.append(_view(mixer)(by_kind, spec, name))
        return cls(tuple(views), names)


def _shared_keys(spec: DecoderSpec) -> set[str]:
    """Keys of the MLPs that are shared experts: a dense one of the same shape serves them, too."""
    mixers = [branch.mixer for kind in spec.kinds for branch in kind.branches]
    mlps = [mixer.shared.mlp for mixer in mixers if isinstance(mixer, Moe) and mixer.shared]
    return {_key(mlp) for mlp in mlps if not (mlp.gate_scale or mlp.down_scale or mlp.gate_limit or mlp.inner_norm)}


def _key(mixer: Any) -> str:
    if isinstance(mixer, Attention):
        return shape(mixer)
    return str(without_numbers(mixer.model_dump(mode="json"))) if isinstance(mixer, Mlp) else mixer.model_dump_json()


def _grouped(spec: DecoderSpec) -> dict[tuple[str, str], dict[Place, Any]]:
    """Mixers that share a class: of one shape, and of one set of numbers within a layer."""
    groups: dict[tuple[str, str], dict[Place, Any]] = {}
    for kind, layer in enumerate(spec.kinds):
        for index, branch in enumerate(layer.branches):
            mixer = branch.mixer
            group = groups.setdefault((mixer.mixer, _key(mixer)), {})
            if any(place[0] == kind and other != mixer for place, other in group.items()):
                group = groups.setdefault((mixer.mixer, f"{_key(mixer)} of branch {index}"), {})
            group[kind, index] = mixer
    return groups


def _class_name(spec: DecoderSpec, prefix: str, mixer: str, members: Mapping[Place, Any], alone: bool) -> str:
    suffix = SUFFIXES.get(mixer, "".join(word.title() for word in mixer.split("_")))
    words = "" if alone else spec.kinds[next(iter(members))[0]].name
    return prefix + "".join(word.title() for word in re.split(r"[\W_]+", words)).removesuffix(suffix) + suffix


def _view(mixer: str) -> Callable[[Any, DecoderSpec, str], MixerView]:
    views: dict[str, Callable[[Any, DecoderSpec, str], MixerView]] = {
        "attention": AttentionView.of,
        "latent_attention": LatentView.of,
        "mamba2": mamba2_view,
        "short_conv": short_conv_view,
    }
    if mixer not in views:
        raise UnsupportedModelError(f"A mixer of kind {mixer} cannot be rendered.")
    return views[mixer]
