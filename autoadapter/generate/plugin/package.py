"""Views of the files around the model: one a template."""

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from autoadapter.artifacts.decoder import DecoderSpec
from autoadapter.engine.registry.config_classes import bare_class
from autoadapter.generate.plugin.api import next_minor
from autoadapter.generate.plugin.loading import absent_parts
from autoadapter.generate.plugin.views import class_prefix
from autoadapter.rendering.literals import py_literal

LINE = 116
"""Characters of a line inside a function."""
VERSION = "0.1.0"
ATTENTION = {"attention", "latent_attention"}
STATES = {"mamba2", "short_conv", "gated_delta_net"}


@dataclass(frozen=True)
class Names:
    """What the plugin's parts are called."""

    package: str
    distribution: str
    model_class: str
    config_class: str | None
    """None where transformers brings the class."""

    @classmethod
    def of(cls, spec: DecoderSpec, config: dict[str, Any]) -> Self:
        """Names for a spec and the config that it will serve."""
        slug = re.sub(r"[^a-z0-9]+", "_", spec.model_type.lower()).strip("_") or "model"
        needs_class = "auto_map" in config or bare_class(spec.model_type) is None
        prefix = class_prefix(spec.architecture)
        return cls(
            package=f"vllm_adapter_{slug}",
            distribution=f"vllm-adapter-{slug.replace('_', '-')}",
            model_class=f"{prefix}ForCausalLM",
            config_class=f"{prefix}Config" if needs_class else None,
        )


@dataclass(frozen=True)
class Registration:
    """`__init__.py` of the package."""

    template: ClassVar[str] = "plugin/__package__/__init__.py.j2"

    architecture: str
    model_type: str
    package: str
    model_class: str
    config_class: str | None
    only_states: bool
    """No layer has keys and values: vLLM takes a model of a new name for one that has."""

    @classmethod
    def of(cls, spec: DecoderSpec, names: Names) -> Self:
        """The view of a spec."""
        mixers = {branch.mixer.mixer for kind in spec.kinds for branch in kind.branches}
        only_states = not mixers & ATTENTION and bool(mixers & STATES)
        return cls(
            architecture=spec.architecture,
            model_type=spec.model_type,
            package=names.package,
            model_class=names.model_class,
            config_class=names.config_class,
            only_states=only_states,
        )

    @property
    def statement(self) -> tuple[str, ...]:
        """The registration, over several lines where it is long."""
        arguments = f'{py_literal(self.architecture)}, "{self.package}.model:{self.model_class}"'
        call = "ModelRegistry.register_model("
        line = f"{call}{arguments})"
        return (line,) if len(line) <= LINE else (call, f"    {arguments}", ")")


@dataclass(frozen=True)
class LoadingModule:
    """The module that accounts for every tensor."""

    template: ClassVar[str] = "plugin/__package__/loading.py.j2"

    has_experts: bool
    has_absent: bool
    """Fused parameters have parts that no tensor fills."""

    @classmethod
    def of(cls, spec: DecoderSpec) -> Self:
        """The view of a spec."""
        has_experts = any(branch.mixer.mixer == "moe" for kind in spec.kinds for branch in kind.branches)
        return cls(has_experts, bool(absent_parts(spec)))


@dataclass(frozen=True)
class LoadingTest:
    """The test that replays a checkpoint's names and shapes."""

    template: ClassVar[str] = "plugin/tests/test_loading.py.j2"


@dataclass(frozen=True)
class ParityTest:
    """The test against transformers."""

    template: ClassVar[str] = "plugin/tests/test_parity.py.j2"

    remote: bool
    """The reference is the checkpoint's own code."""


@dataclass(frozen=True)
class _Distribution:
    distribution: str
    package: str
    version: str
    description: str
    vllm_since: str
    vllm_until: str

    @classmethod
    def of(cls, spec: DecoderSpec, names: Names, vllm_version: str) -> Self:
        """The view of a spec."""
        return cls(
            distribution=names.distribution,
            package=names.package,
            version=VERSION,
            description=f"Serves {spec.architecture} in vLLM",
            vllm_since=".".join(vllm_version.split(".")[:2]),
            vllm_until=next_minor(vllm_version),
        )


@dataclass(frozen=True)
class Pyproject(_Distribution):
    """What pip installs."""

    template: ClassVar[str] = "plugin/pyproject.toml.j2"


@dataclass(frozen=True)
class Metadata(_Distribution):
    """What makes Python see the folder as an installed distribution."""

    template: ClassVar[str] = "plugin/__dist_info__/METADATA.j2"


@dataclass(frozen=True)
class EntryPoints(_Distribution):
    """Where vLLM finds `register`, without an installation."""

    template: ClassVar[str] = "plugin/__dist_info__/entry_points.txt.j2"
