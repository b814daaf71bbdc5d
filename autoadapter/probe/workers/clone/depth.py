"""Which layers of a checkpoint its clone keeps: every kind, at least one period, and at least four."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autoadapter.probe.workers.clone.keys import Stated, is_number, key_table, walk

LEAST = 4
LONGEST_PERIOD = 16
LONGEST_EDGE = 4
"""Layers at either end of a list that may break its period."""


@dataclass(frozen=True)
class Depth:
    """The layers of the clone, each with the layer of the checkpoint that it stands for."""

    before: int
    sources: tuple[int, ...]
    why: str

    @property
    def after(self) -> int:
        """Layers of the clone."""
        return len(self.sources)

    def cut(self, values: Sequence[Any]) -> list[Any]:
        """A list with one value a layer; what follows the layers is kept."""
        return [values[layer] for layer in self.sources] + list(values[self.before :])

    def below(self, layer: int) -> int:
        """How many layers of the clone stand for layers below one of the checkpoint."""
        return sum(source < layer for source in self.sources)


@dataclass
class _Pattern:
    """What tells layers apart: a period, and layers where something changes for good."""

    before: int
    periods: list[int] = field(default_factory=list)
    edges: set[int] = field(default_factory=set)
    irregular: list[str] = field(default_factory=list)
    labels: list[list[str]] = field(default_factory=list)

    def add_list(self, key: str, values: Sequence[Any]) -> None:
        labels = [repr(value) for value in values]
        self.labels.append(labels)
        changes = [layer for layer in range(1, len(labels)) if labels[layer] != labels[layer - 1]]
        if len(changes) <= 1:
            self.edges |= set(changes)
            return
        for start in range(LONGEST_EDGE + 1):
            for end in range(len(labels), len(labels) - LONGEST_EDGE, -1):
                period = _period(labels[start:end])
                if period and 2 * period <= end - start:
                    self.periods.append(period)
                    self.edges |= {start, end}
                    return
        self.irregular.append(key)

    @property
    def period(self) -> int:
        return math.lcm(*self.periods)

    def segments(self) -> list[tuple[int, int]]:
        inner = sorted(edge for edge in self.edges if 0 < edge < self.before)
        return list(zip([0, *inner], [*inner, self.before], strict=True))


def _period(labels: Sequence[str]) -> int | None:
    for period in range(1, LONGEST_PERIOD + 1):
        if all(labels[layer] == labels[layer + period] for layer in range(len(labels) - period)):
            return period
    return None


def layer_count(config: Mapping[str, Any]) -> int:
    """How many layers a config has; 0 where it does not tell.

    Where no key counts them, the longest list of words has one a layer.
    """
    count = Stated(config).count("depth")
    lists = [len(value) for _, value in walk(config) if isinstance(value, list) and _words(value)]
    return count or max(lists, default=0)


def _words(values: Sequence[Any]) -> bool:
    return len(values) > 1 and all(isinstance(value, str) for value in values)


def per_layer(key: str, value: Any, layers: int) -> bool:
    """Whether a value has one entry for each layer."""
    role = key_table().role(key)
    if role in ("indices", "cycle", "rope_factors", "rope_sections") or key.endswith("token_id"):
        return False
    if isinstance(value, str):
        return "pattern" in key and len(value) == layers
    if not isinstance(value, list) or layers < 3:
        return False
    return layers <= len(value) <= layers + 2 and all(isinstance(item, str | int | float | None) for item in value)


def by_layer(value: Any, layers: int) -> bool:
    """Whether a value is a dictionary from layer numbers."""
    return isinstance(value, dict) and bool(value) and all(str(key).isdigit() and int(key) < layers for key in value)


def members(values: Sequence[int], layers: int) -> list[bool]:
    """Layer by layer, whether a list of layer numbers has it; numbers that reach the count start from one."""
    first = 1 if layers in values and 0 not in values else 0
    return [layer + first in values for layer in range(layers)]


def choose_depth(config: Mapping[str, Any]) -> Depth:
    """The layers to keep."""
    before = layer_count(config)
    pattern = _read(config, before)
    if pattern.irregular or pattern.period > LONGEST_PERIOD:
        why = (
            f"{', '.join(pattern.irregular) or 'the layers'}: no short period, so the first that show every kind twice"
        )
        return Depth(before, tuple(range(_shown(pattern))), why)
    sources = _sources(pattern)
    if len(sources) >= before:
        return Depth(before, tuple(range(before)), "all layers")
    edges = [start for start, _ in pattern.segments()][1:]
    return Depth(before, tuple(sources), f"period {pattern.period}, changes at layers {edges or 'none'}")


def _read(config: Mapping[str, Any], before: int) -> _Pattern:
    pattern = _Pattern(before, periods=[1])
    table = key_table()
    for key, value in walk(config):
        role = table.role(key)
        if per_layer(key, value, before):
            pattern.add_list(key, value[:before])
        elif by_layer(value, before):
            pattern.add_list(key, [value.get(str(layer), value.get(f"{layer:02}")) for layer in range(before)])
        elif role == "indices" and isinstance(value, list):
            pattern.add_list(key, members(value, before))
        elif role == "cycle" and isinstance(value, list) and value:
            pattern.periods.append(len(value))
        elif role == "period" and is_number(value) and 1 < value <= before:
            pattern.periods.append(int(value))
        elif role in ("head_count", "depth_bound") and is_number(value):
            pattern.edges.add(int(value))
        elif role == "tail_count" and is_number(value):
            pattern.edges.add(before - int(value))
    return pattern


def _shown(pattern: _Pattern) -> int:
    """The shortest start of the layers with every kind twice, or as often as there are."""
    segment = [sum(edge <= layer for edge in pattern.edges) for layer in range(pattern.before)]
    kinds = list(zip(*pattern.labels, map(str, segment), strict=True))
    missing = {kind: min(2, number) for kind, number in Counter(kinds).items()}
    for layer, kind in enumerate(kinds):
        missing[kind] -= 1
        if layer + 1 >= LEAST and all(number <= 0 for number in missing.values()):
            return layer + 1
    return pattern.before


def _sources(pattern: _Pattern) -> list[int]:
    """One period of each segment, in phase: layer i of the clone stands for one that is i modulo the period."""
    period, segments = pattern.period, pattern.segments()
    longest = max(segments, key=lambda segment: segment[1] - segment[0])
    wanted = {segment: min(period, segment[1] - segment[0]) for segment in segments}
    missing = max(0, LEAST - sum(wanted.values()))
    wanted[longest] += math.ceil(missing / period) * period
    sources: list[int] = []
    for number, (start, end) in enumerate(segments):
        first = start + (len(sources) - start) % period
        sources += range(first, min(first + wanted[start, end], end))
        if number + 1 < len(segments):
            following, stop = segments[number + 1]
            short = (following - len(sources)) % period if stop - following < period else 0
            sources += [sources[-1] + step + 1 for step in range(short) if sources[-1] + step + 1 < end]
    return sources
