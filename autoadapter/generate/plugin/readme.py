"""The plugin's README: what it is, how it was measured, how it is installed and proven."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from autoadapter.artifacts.decoder import DecoderSpec, Evidence, Value
from autoadapter.generate.plugin.expressions import expression
from autoadapter.generate.plugin.package import Names


@dataclass(frozen=True)
class AxisRow:
    """A row of the table of what was measured."""

    where: str
    value: str
    error: str
    other: str
    other_error: str

    @classmethod
    def of(cls, evidence: Evidence, spec: DecoderSpec) -> Self:
        """The row of a fitted value."""
        other = evidence.runner_up_error
        return cls(
            where=_words(evidence.path, spec),
            value=_shown(evidence.value),
            error=f"{evidence.max_error:.1e}",
            other="" if other is None else _shown(evidence.runner_up),
            other_error="" if other is None else f"{other:.1e}",
        )


@dataclass(frozen=True)
class PluginReadme:
    """The README."""

    template: ClassVar[str] = "plugin/README.md.j2"

    tool_version: str
    architecture: str
    distribution: str
    package: str
    vllm_since: str
    reference: tuple[tuple[str, str], ...]
    replay_error: str
    axes: tuple[AxisRow, ...]
    config_class: str | None
    opaque: tuple[str, ...]
    limits: tuple[str, ...]

    @classmethod
    def of(cls, spec: DecoderSpec, names: Names, vllm_version: str) -> Self:
        """The view of a spec."""
        mixers = [branch.mixer for kind in spec.kinds for branch in kind.branches]
        return cls(
            tool_version=spec.tool_version,
            architecture=spec.architecture,
            distribution=names.distribution,
            package=names.package,
            vllm_since=".".join(vllm_version.split(".")[:2]),
            reference=tuple(sorted(spec.reference.items())),
            replay_error=f"{spec.replay_error:.1e}",
            axes=tuple(AxisRow.of(evidence, spec) for evidence in spec.evidence),
            config_class=names.config_class,
            opaque=tuple(sorted({mixer.class_name for mixer in mixers if mixer.mixer == "opaque"})),
            limits=tuple(_limits(spec)),
        )


def _limits(spec: DecoderSpec) -> Iterator[str]:
    if len(spec.kinds) > 1 and not spec.pattern.table:
        count = len(spec.pattern.kinds)
        yield f"Which layer is of which kind follows no rule of the config: the plugin serves {count} layers only."
    if any(branch.mixer.mixer == "latent_attention" for kind in spec.kinds for branch in kind.branches):
        yield (
            "vLLM keeps a list of model types for which it uses latent attention (MLA); for others, and under "
            "`VLLM_MLA_DISABLE=1`, keys and values are expanded, which costs more cache."
        )
    yield "Prompts are text: images and sound are not read."


def _words(path: str, spec: DecoderSpec) -> str:
    """`kinds.0.branches.1.mixer.gated` → `dense: mlp gated`."""
    parts = path.split(".")
    if parts[0] != "kinds" or len(parts) < 4:
        return path.replace("_", " ")
    kind = spec.kinds[int(parts[1])]
    branch = kind.branches[int(parts[3])]
    rest = [part for part in parts[4:] if part != "mixer"]
    return " ".join((f"{kind.name}:", branch.mixer.mixer, *rest)).replace("_", " ")


def _shown(value: Any) -> str:
    if isinstance(value, dict) and "number" in value:
        number = Value.model_validate(value)
        return f"{number.number:g}" + (f" ({expression(number)})" if number.key else "")
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(item)}" for name, item in value.items() if item not in (None, False, {}))
    return f"{value:g}" if isinstance(value, float) else str(value)
