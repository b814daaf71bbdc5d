"""A decoder layer in rendered code."""

from collections.abc import Mapping
from dataclasses import dataclass

from autoadapter.artifacts.decoder import DecoderSpec, LayerKind, Norm, Value
from autoadapter.generate.plugin.expressions import expression
from autoadapter.generate.plugin.names import NormRole, mixer_name, norm_name
from autoadapter.generate.plugin.views.choices import Choices
from autoadapter.generate.plugin.views.lines import wrapped
from autoadapter.generate.plugin.views.norms import NormClass, norm_use, takes_residual
from autoadapter.generate.plugin.views.wiring import Wiring, can_fuse, scale_name

NORMS: tuple[NormRole, ...] = ("input_norm", "output_norm", "post_norm")
SCALES = ("input_scale", "output_scale", "stream_scale")


@dataclass(frozen=True)
class LayerView:
    """One layer class, of the kinds that hang their branches in the same way."""

    class_name: str
    choices: tuple[str, ...]
    modules: tuple[str, ...]
    """Statements of `__init__` that make mixers, norms and multipliers."""
    forward: tuple[str, ...]
    fused: bool
    helpers: tuple[NormClass, ...]
    imports: frozenset[tuple[str, str]]
    uses_kind_names: bool
    uses_config: bool
    kind: str = "layer"

    @classmethod
    def of(
        cls, kinds: Mapping[int, LayerKind], spec: DecoderSpec, class_name: str, mixers: Mapping[tuple[int, int], str]
    ) -> "LayerView":
        """The class for kinds of one `wiring_key`.

        Args:
            kinds: by index in the spec.
            spec: the decoder.
            class_name: what it is called.
            mixers: the class of each (kind, branch).
        """
        build = _Builder(dict(kinds), spec)
        first = next(iter(kinds.values()))
        wiring = Wiring(first)
        fused = is_fused(spec)
        modules = [line for index in range(len(first.branches)) for line in build.mixer(index, mixers)]
        modules += [line for index in range(len(first.branches)) for line in build.norms(index)]
        modules += dict.fromkeys(line for index in range(len(first.branches)) for line in build.scales(index))
        indexed = {("vllm.model_executor.models.utils", "extract_layer_index")} if build.choices.lines else set()
        text = "\n".join((*modules, *build.choices.lines))
        return cls(
            class_name=class_name,
            choices=build.choices.lines,
            modules=tuple(part for line in modules for part in wrapped(line)),
            forward=tuple(part for line in (wiring.fused() if fused else wiring.plain()) for part in wrapped(line)),
            fused=fused,
            helpers=tuple(build.helpers),
            imports=frozenset(build.imports | indexed | {("torch", "")}),
            uses_kind_names=build.choices.uses_kind_names,
            uses_config="config." in text or "(config" in text,
        )


def is_fused(spec: DecoderSpec) -> bool:
    """Whether layers pass `hidden_states` and `residual` on, to be added by the next norm."""
    return takes_residual(spec.norm) and all(can_fuse(kind) for kind in spec.kinds)


def wiring_key(kind: LayerKind, fused: bool) -> tuple[object, ...]:
    """What two kinds must have in common for one layer class to serve both."""
    wiring = Wiring(kind)
    norms = [_plain(getattr(branch, role)) for branch in kind.branches for role in NORMS]
    scales = [getattr(branch, role) is not None for branch in kind.branches for role in SCALES]
    return (*(wiring.fused() if fused else wiring.plain()), *norms, *scales)


def _plain(norm: Norm | None) -> str:
    return norm.model_dump_json(exclude={"eps"}) if norm else ""


class _Builder:
    """Statements of one class's `__init__`, with the helper classes and imports that they need."""

    def __init__(self, kinds: dict[int, LayerKind], spec: DecoderSpec) -> None:
        self.kinds = kinds
        self.first = next(iter(kinds.values()))
        self.spec = spec
        self.choices = Choices(spec)
        self.helpers: list[NormClass] = []
        self.imports: set[tuple[str, str]] = set()

    def mixer(self, index: int, classes: Mapping[tuple[int, int], str]) -> list[str]:
        """Statements that make the mixer of a branch."""
        name = mixer_name(self.first, index)
        groups: dict[str, list[int]] = {}
        for kind in self.kinds:
            groups.setdefault(classes[kind, index], []).append(kind)
        made = [f'self.{name} = {used}(vllm_config, prefix=f"{{prefix}}.{name}")' for used in groups]
        if len(made) == 1:
            return made
        lines: list[str] = []
        *heads, last = zip(groups.values(), made, strict=True)
        for number, (kinds, statement) in enumerate(heads):
            lines += [f"{'elif' if number else 'if'} {self.choices.condition(kinds, self.kinds)}:", f"    {statement}"]
        return [*lines, "else:", f"    {last[1]}"]

    def norms(self, index: int) -> list[str]:
        """Statements that make the norms of a branch."""
        lines = []
        for role in NORMS:
            norm: Norm | None = getattr(self.first.branches[index], role)
            if norm is None:
                continue
            use = norm_use(norm, groups=expression(norm.groups) if norm.groups else None)
            self.imports |= use.imports
            self.helpers += [use.helper] if use.helper else []
            eps = self.choices.pick_value(
                {number: getattr(kind.branches[index], role).eps for number, kind in self.kinds.items()}
            )
            made = use.made(expression(self.spec.hidden_size), eps)
            lines.append(f"self.{norm_name(self.first, index, role)} = {made}")
        return lines

    def scales(self, index: int) -> list[str]:
        """Statements that keep the multipliers of a branch."""
        lines = []
        for role in SCALES:
            values: dict[int, Value | None] = {
                number: getattr(kind.branches[index], role) for number, kind in self.kinds.items()
            }
            if any(values.values()):
                lines.append(f"self.{scale_name(self.first, index, role)} = {self.choices.pick_value(values)}")
        return lines
