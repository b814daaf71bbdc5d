"""Which classes a module needs for its mixers: one for those that differ only in numbers."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from autoadapter.artifacts.decoder import Attention, DecoderSpec, Mlp
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
        groups: dict[tuple[str, str], dict[Place, Any]] = {}
        for kind, layer in enumerate(spec.kinds):
            for index, branch in enumerate(layer.branches):
                groups.setdefault((branch.mixer.mixer, _key(branch.mixer)), {})[kind, index] = branch.mixer
        names: dict[Place, str] = {}
        views: list[MixerView] = []
        for (mixer, _), members in groups.items():
            alone = sum(1 for other, _ in groups if SUFFIXES.get(other) == SUFFIXES.get(mixer)) == 1
            name = _class_name(spec, prefix, mixer, members, alone)
            name = name if name not in names.values() else f"{name}{len(views) + 1}"
            by_kind = _by_kind(members)
            names |= dict.fromkeys(members, name)
            if mixer == "moe":
                views += moe_views(by_kind, spec, name, vllm_version)
            else:
                views.append(_view(mixer)(by_kind, spec, name))
        return cls(tuple(views), names)


def _key(mixer: Any) -> str:
    if isinstance(mixer, Attention):
        return shape(mixer)
    return str(without_numbers(mixer.model_dump(mode="json"))) if isinstance(mixer, Mlp) else mixer.model_dump_json()


def _by_kind(members: Mapping[Place, Any]) -> dict[int, Any]:
    """The mixer of each kind.

    Raises:
        UnsupportedModelError: two branches of a kind need the same class with other numbers.
    """
    found: dict[int, Any] = {}
    for (kind, index), mixer in members.items():
        if found.setdefault(kind, mixer) != mixer:
            raise UnsupportedModelError(
                f"Branch {index} of a layer differs only in numbers from an earlier one: kinds.{kind} cannot be rendered."
            )
    return found


def _class_name(spec: DecoderSpec, prefix: str, mixer: str, members: Mapping[Place, Any], alone: bool) -> str:
    suffix = SUFFIXES.get(mixer, "".join(word.title() for word in mixer.split("_")))
    words = "" if alone else spec.kinds[next(iter(members))[0]].name
    return prefix + "".join(word.title() for word in re.split(r"[\W_]+", words)).removesuffix(suffix) + suffix


def _view(mixer: str) -> Callable[[Any, DecoderSpec, str], MixerView]:
    views: dict[str, Callable[[Any, DecoderSpec, str], MixerView]] = {
        "attention": AttentionView.of,
        "latent_attention": LatentView.of,
        "mamba2": mamba2_view,
        "mlp": MlpView.of,
        "short_conv": short_conv_view,
    }
    if mixer not in views:
        raise UnsupportedModelError(f"A mixer of kind {mixer} cannot be rendered.")
    return views[mixer]


