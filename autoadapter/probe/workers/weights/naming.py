"""Puts `{layer}` and `{expert}` into checkpoint names: many located tensors become few weight sources."""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass

from autoadapter.artifacts.decoder import DecoderSpec, Value, WeightSource
from autoadapter.probe.workers.weights.locating import Location
from autoadapter.probe.workers.weights.rows import OF_LAYER

NUMBER = re.compile(r"\d+")


class UnnamedError(Exception):
    """Checkpoint names follow no pattern of layers and experts."""


@dataclass(frozen=True)
class _Member:
    location: Location
    layer: int | None

    def templates(self) -> set[str]:
        """Every way in which its name may tell its layer and expert."""
        name = self.location.checkpoint
        if self.layer is None:
            return {name}
        numbers = list(NUMBER.finditer(name))
        layers = [found.span() for found in numbers if int(found[0]) == self.layer]
        if self.location.expert is None:
            return {_put(name, {span: "{layer}"}) for span in layers}
        experts = [found.span() for found in numbers if int(found[0]) == self.location.expert]
        return {_put(name, {one: "{layer}", two: "{expert}"}) for one in layers for two in experts if one != two}


def weight_sources(
    spec: DecoderSpec, locations: list[Location], groups: dict[tuple[str, ...], Value]
) -> tuple[WeightSource, ...]:
    """The sources that say where the located tensors lie.

    Args:
        spec: its pattern says which layer is of which kind.
        locations: of every checkpoint tensor that is used.
        groups: the parts of fused targets (`{layer}` in their names) as fitted, with their config keys.

    Raises:
        UnnamedError: names follow no pattern, or layers of one kind hold their weights differently.
    """
    gathered: dict[tuple[object, ...], list[_Member]] = defaultdict(list)
    for location in locations:
        member = _Member(location, _layer(location))
        how = (location.groups, location.transposed, location.experts, location.squeezed)
        gathered[_general(location.targets), *how].append(member)
    common = {key: set.intersection(*(member.templates() for member in members)) for key, members in gathered.items()}
    starts = Counter(next(iter(names)).partition("{layer}")[0] for names in common.values() if len(names) == 1)
    return tuple(
        _source(spec, members, _choose(common[key], members, starts), groups) for key, members in gathered.items()
    )


def _source(spec: DecoderSpec, members: list[_Member], name: str, groups: dict[tuple[str, ...], Value]) -> WeightSource:
    first = members[0].location
    targets = _general(first.targets)
    fitted = groups.get(targets)
    return WeightSource(
        checkpoint=name,
        targets=targets,
        kinds=_kinds(spec, members, name),
        groups=fitted if fitted is not None and fitted.number == first.groups else Value(number=first.groups),
        transposed=first.transposed,
        squeezed=first.squeezed,
        experts=first.experts,
    )


def _kinds(spec: DecoderSpec, members: list[_Member], name: str) -> tuple[int, ...]:
    layers = {member.layer for member in members if member.layer is not None}
    kinds = tuple(sorted({spec.pattern.kinds[layer] for layer in layers}))
    expected = {layer for layer, kind in enumerate(spec.pattern.kinds) if kind in kinds}
    if layers != expected:
        raise UnnamedError(f"{name}: layers of one kind hold it differently: {sorted(layers)} of {sorted(expected)}")
    return () if len(kinds) == len(spec.kinds) else kinds


def _choose(names: set[str], members: list[_Member], starts: Counter[str]) -> str:
    if not names:
        shown = ", ".join(member.location.checkpoint for member in members[:3])
        raise UnnamedError(f"no pattern of layer numbers in {shown}")
    return max(sorted(names), key=lambda name: starts[name.partition("{layer}")[0]])


def _layer(location: Location) -> int | None:
    found = OF_LAYER.fullmatch(location.targets[0])
    return int(found["layer"]) if found else None


def _general(targets: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(re.sub(r"^layers\.\d+\.", "layers.{layer}.", target) for target in targets)


def _put(name: str, marks: dict[tuple[int, int], str]) -> str:
    for (start, end), mark in sorted(marks.items(), reverse=True):
        name = name[:start] + mark + name[end:]
    return name
