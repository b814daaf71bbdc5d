"""Tensors that are not loaded as they lie: transposed, cut by heads, stacked over experts."""

from collections.abc import Sequence
from dataclasses import dataclass

from autoadapter.artifacts.decoder import DecoderSpec, Moe, Value, WeightSource
from autoadapter.errors import UnsupportedModelError
from autoadapter.generate.plugin.expressions import expression
from autoadapter.generate.plugin.loading.pairs import EXPERT, LAYER, Pair, is_whole, kinds_of
from autoadapter.generate.plugin.loading.rows import Rows, block_of
from autoadapter.generate.plugin.names import Place

LINE = 120
INDENT = 12


@dataclass(frozen=True)
class Reshape:
    """What to do with checkpoint tensors whose name ends in one of `endings`."""

    endings: tuple[str, ...]
    lines: tuple[str, ...]
    """Statements on `name` and `weight`; they yield parts, or leave the tensor to be yielded under its name."""
    yields: bool

    def condition_lines(self, word: str) -> tuple[str, ...]:
        """`if name.endswith(…):` with `if` or `elif` as the word, over several lines where it is long."""
        quoted = [f'"{ending}"' for ending in self.endings]
        modules = {ending.rpartition(".")[0] for ending in self.endings}
        if len(modules) == 1 and len(quoted) > 1:
            return (f'{word} "{modules.pop()}." in name:',)
        call = quoted[0] if len(quoted) == 1 else f"({', '.join(quoted)})"
        line = f"{word} name.endswith({call}):"
        if INDENT + len(line) <= LINE:
            return (line,)
        rows = (f"        {ending}," for ending in quoted)
        return (f"{word} name.endswith(", "    (", *rows, "    )", "):")


@dataclass(frozen=True)
class Cut:
    """A source that needs more than a rename, and the pairs that stand for it afterwards."""

    reshape: Reshape
    pairs: tuple[Pair, ...]


def needs_cut(source: WeightSource, places: Sequence[Place]) -> bool:
    """Whether no rename alone loads the source."""
    if source.transposed or source.squeezed or source.experts in ("leading", "rows"):
        return True
    return source.groups.number != 1 or (len(places) > 1 and not is_whole(places))


def cut(spec: DecoderSpec, source: WeightSource, places: Sequence[Place]) -> Cut:
    """The statements that load a source, and the pairs that renaming then has to map.

    Raises:
        UnsupportedModelError: a layout that no statement takes apart.
    """
    if source.experts in ("leading", "rows"):
        return _experts(spec, source, places)
    turned = ("weight = weight.t()",) if source.transposed else ()
    if source.squeezed:
        turned = ("weight = weight.squeeze(0)",)
    if len(places) == 1:
        return Cut(Reshape((_ending(source),), turned, yields=False), (Pair(source.checkpoint, places[0]),))
    return _joined(spec, source, places, turned)


def _ending(source: WeightSource) -> str:
    return source.checkpoint.rpartition(LAYER)[2].rpartition(EXPERT)[2]


def _joined(spec: DecoderSpec, source: WeightSource, places: Sequence[Place], turned: tuple[str, ...]) -> Cut:
    parts = _part_rows(spec, source)
    grouping = _grouping(spec, source)
    ending = (_ending(source),)
    if is_whole(places) and source.groups.number == 1:
        return Cut(Reshape(ending, turned, yields=False), (Pair(source.checkpoint, places[0], whole=True),))
    if is_whole(places) and not _is_interleaved(parts):
        lines = (*turned, *_regrouped(grouping, parts))
        return Cut(Reshape(ending, lines, yields=False), (Pair(source.checkpoint, places[0], whole=True),))
    names = [found.name.split(".")[-2] for found in places]
    old = source.checkpoint.split(".")[-2]
    taken = _taken_apart("weight", names, source, parts, grouping)
    yields = [f'yield name.replace(".{old}.", ".{name}."), {name}' for name in names]
    pairs = tuple(
        Pair(source.checkpoint.replace(f".{old}.", f".{name}."), found)
        for name, found in zip(names, places, strict=True)
    )
    return Cut(Reshape(ending, (*turned, *taken, *yields), yields=True), pairs)


def _mixer(spec: DecoderSpec, source: WeightSource) -> object:
    index = int(source.targets[0].split(".")[2])
    return spec.kinds[kinds_of(spec, source)[0]].branches[index].mixer


def _leaf(target: str) -> str:
    return target.split(".")[-2]


def _part_rows(spec: DecoderSpec, source: WeightSource) -> list[Rows]:
    """Rows that each target has in one group."""
    found = []
    for target in source.targets:
        block = block_of(_inner(_mixer(spec, source), target), _leaf(target), spec.hidden_size)
        if block is None:
            raise UnsupportedModelError(f"{source.checkpoint} is cut into {target}, whose rows are unknown")
        rows, blocks = block
        found.append(rows.in_each(source.groups, blocks))
    return found


def _inner(mixer: object, target: str) -> object:
    """The MLP among shared experts, where the target is of one."""
    if isinstance(mixer, Moe) and mixer.shared and target.split(".")[3] == "shared":
        return mixer.shared.mlp
    return mixer


def _grouping(spec: DecoderSpec, source: WeightSource) -> str:
    """How many groups: an expression. A number without a key is that of the heads where it is as many."""
    groups = source.groups
    mixer = _mixer(spec, source)
    for name in ("num_kv_heads", "num_heads"):
        heads: Value | None = getattr(mixer, name, None)
        if groups.key is None and heads is not None and heads.number == groups.number:
            return expression(heads)
    return expression(groups)


def _is_interleaved(parts: Sequence[Rows]) -> bool:
    return all(part.number == 1 for part in parts)


def _regrouped(groups: str, parts: Sequence[Rows]) -> tuple[str, ...]:
    """From [q, k, v] in each group to all q, all k, all v."""
    if len({part.number for part in parts}) == 1:
        return (f"weight = weight.unflatten(0, ({groups}, {len(parts)}, -1)).transpose(0, 1).flatten(0, 2)",)
    return (
        f"groups = weight.unflatten(0, ({groups}, -1))",
        f"parts = groups.{_split(parts)}",
        "weight = torch.cat([part.flatten(0, 1) for part in parts])",
    )


def _split(parts: Sequence[Rows]) -> str:
    if len({part.text for part in parts}) == 1:
        return f"chunk({len(parts)}, dim=1)"
    return f"split([{', '.join(part.text for part in parts)}], dim=1)"


def _taken_apart(
    weight: str, names: Sequence[str], source: WeightSource, parts: Sequence[Rows], groups: str
) -> tuple[str, ...]:
    """Statements that name each target's rows."""
    targets = ", ".join(names)
    if source.groups.number != 1 and _is_interleaved(parts):
        strided = ", ".join(f"{weight}[{start}::{len(names)}]" for start in range(len(names)))
        return (f"{targets} = {strided}",)
    if source.groups.number != 1:
        return (
            f"groups = {weight}.unflatten(0, ({groups}, -1))",
            f"parts = groups.{_split(parts)}",
            f"{targets} = (part.flatten(0, 1) for part in parts)",
        )
    if len({part.number for part in parts}) == 1:
        return (f"{targets} = {weight}.chunk({len(names)})",)
    return (f"{targets} = {weight}.split([{', '.join(part.text for part in parts)}])",)


def _experts(spec: DecoderSpec, source: WeightSource, places: Sequence[Place]) -> Cut:
    """One stacked tensor → tensors of each expert under their usual names."""
    mixer = _mixer(spec, source)
    names = [found.name.split(".")[-2] for found in places]
    end = places[0].name.split(".")[-1]
    old = _stacked_leaf(source)
    body: list[str] = []
    rows = ["rows"]
    if len(names) > 1:
        body += _taken_apart("rows", names, source, _part_rows(spec, source), _grouping(spec, source))
        rows = names
    body += [f'yield f"{{stem}}.{{expert}}.{name}.{end}", {part}' for name, part in zip(names, rows, strict=True)]
    stacked, lines = "weight", [f'stem = name.removesuffix("{old}")']
    if source.experts == "rows" and isinstance(mixer, Moe):
        stacked = "experts"
        lines.append(f"experts = weight.unflatten(0, ({expression(mixer.num_experts)}, -1))")
    turned = f"{stacked}.transpose(1, 2)" if source.transposed else stacked
    lines += [f"for expert, rows in enumerate({turned}):", *(f"    {line}" for line in body)]
    parent = source.checkpoint.removesuffix(old)
    pairs = tuple(Pair(f"{parent}.{EXPERT}.{name}.{end}", found) for name, found in zip(names, places, strict=True))
    return Cut(Reshape((_ending(source),), tuple(lines), yields=True), pairs)


def _stacked_leaf(source: WeightSource) -> str:
    """`.gate_up_proj`, with `.weight` where the checkpoint has it."""
    *_, before, last = source.checkpoint.split(".")
    return f".{before}.{last}" if last in ("weight", "bias") else f".{last}"


def merged(reshapes: Sequence[Reshape]) -> tuple[Reshape, ...]:
    """Reshapes of the same statements as one: of a weight and its bias, of all that are only transposed."""
    by_lines: dict[tuple[tuple[str, ...], bool], list[str]] = {}
    for reshape in reshapes:
        by_lines.setdefault((reshape.lines, reshape.yields), []).extend(reshape.endings)
    return tuple(Reshape(tuple(dict.fromkeys(ends)), lines, yields) for (lines, yields), ends in by_lines.items())
