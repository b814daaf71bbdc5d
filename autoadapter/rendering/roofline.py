"""The roofline: each operator at its arithmetic intensity, under what the device can do."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from autoadapter.artifacts import CostProfile
from autoadapter.artifacts.sizing import OperatorCost
from autoadapter.rendering.words import number

WIDTH, HEIGHT = 640, 280
LEFT, RIGHT, TOP, BOTTOM = 56, 14, 14, 44
PHASES = ("prefill", "decode")
LEAST_RADIUS, MOST_RADIUS = 3.5, 11.0
MOST_DECADES = 12
"""Beyond that an axis is unreadable; what lies outside is drawn at the edge."""
FASTER = " The line is the device at 16 bit; what it computes in 8 or 4 bit lies above it."


@dataclass(frozen=True)
class Dot:
    """An operator; its area is its share of the phase's time."""

    series: int
    x: float
    y: float
    radius: float
    tip: str


@dataclass(frozen=True)
class Mark:
    """A tick or a label."""

    at: float
    label: str


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis over whole decades."""

    first: int
    last: int
    start: float
    length: float

    @classmethod
    def over(cls, values: Sequence[float], start: float, length: float) -> Self:
        """The decades that hold the values, at least one."""
        first = math.floor(math.log10(min(values)))
        last = max(math.ceil(math.log10(max(values))), first + 1)
        return cls(max(first, last - MOST_DECADES), last, start, length)

    def at(self, value: float) -> float:
        """Where a value lies, kept inside."""
        share = (math.log10(value) - self.first) / (self.last - self.first)
        return round(self.start + self.length * min(max(share, 0.0), 1.0), 2)

    def ticks(self) -> tuple[Mark, ...]:
        """One a decade, every second where there are many."""
        step = 1 if self.last - self.first <= 6 else 2
        return tuple(
            Mark(self.at(10.0**power), power_of_ten(power)) for power in range(self.first, self.last + 1, step)
        )


@dataclass(frozen=True)
class Roofline:
    """The chart, in SVG units."""

    roof: str
    """Points of the line: up with the memory, then flat."""
    ridge: float
    ridge_label: str
    dots: tuple[Dot, ...]
    x_ticks: tuple[Mark, ...]
    y_ticks: tuple[Mark, ...]
    description: str

    width, height = WIDTH, HEIGHT
    left, right, top, base = LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM
    series = PHASES

    @classmethod
    def of(cls, cost: CostProfile) -> "Roofline | None":
        """The chart of a cost profile; None where no operator has sizes and a time."""
        rows = [row for row in cost.operators if row.bytes > 0 < row.seconds and row.flops / row.bytes > 0]
        if not rows or cost.ridge <= 0:
            return None
        bandwidth = _bandwidth(rows, cost.ridge)
        peak = bandwidth * cost.ridge
        speeds = [row.flops / row.seconds for row in rows]
        x = Axis.over([*(row.flops / row.bytes for row in rows), cost.ridge], LEFT, WIDTH - LEFT - RIGHT)
        y = Axis.over([*speeds, peak], HEIGHT - BOTTOM, TOP + BOTTOM - HEIGHT)
        return cls(
            roof=_roof(x, y, bandwidth, peak),
            ridge=x.at(cost.ridge),
            ridge_label=f"ridge {cost.ridge:.0f} FLOP/byte at 16 bit",
            dots=tuple(_dots(rows, x, y)),
            x_ticks=x.ticks(),
            y_ticks=y.ticks(),
            description=_description(rows) + (FASTER if max(speeds) > 1.01 * peak else ""),
        )


def _bandwidth(rows: Sequence[OperatorCost], ridge: float) -> float:
    """Bytes per second: what memory-bound operators meet, else the compute roof over the ridge."""
    bound = [row.bytes / row.seconds for row in rows if row.bound == "memory"]
    return max(bound) if bound else max(row.flops / row.seconds for row in rows) / ridge


def _roof(x: Axis, y: Axis, bandwidth: float, peak: float) -> str:
    corners = (10.0**x.first, peak / bandwidth, 10.0**x.last)
    lowest = 10.0**y.first / bandwidth
    values = [max(corners[0], lowest), *corners[1:]]
    return " ".join(f"{x.at(value)},{y.at(min(value * bandwidth, peak))}" for value in values)


def _dots(rows: Sequence[OperatorCost], x: Axis, y: Axis) -> list[Dot]:
    total = {phase: sum(row.seconds for row in rows if row.phase == phase) for phase in PHASES}
    ordered = sorted(rows, key=lambda row: -row.seconds)
    return [
        Dot(
            series=PHASES.index(row.phase),
            x=x.at(row.flops / row.bytes),
            y=y.at(row.flops / row.seconds),
            radius=round(max(LEAST_RADIUS, MOST_RADIUS * math.sqrt(row.seconds / total[row.phase])), 2),
            tip=f"{row.phase} {row.name}: {number(row.flops / row.bytes)} FLOP/byte, "
            f"{row.seconds / total[row.phase]:.0%} of the time, bound by {row.bound}",
        )
        for row in ordered
    ]


def _description(rows: Sequence[OperatorCost]) -> str:
    parts = []
    for phase in PHASES:
        mine = [row for row in rows if row.phase == phase]
        if mine:
            memory = sum(row.seconds for row in mine if row.bound == "memory") / sum(row.seconds for row in mine)
            parts.append(f"{memory:.0%} of the time of {phase} is bound by memory")
    return "Each dot is an operator, its area its share of the time. " + ", ".join(parts) + "."


def power_of_ten(power: int) -> str:
    """0 → `1`, 3 → `1K`, 12 → `1T`, -1 → `0.1`."""
    if power < 0:
        return f"{10.0**power:g}"
    unit = ("", "K", "M", "G", "T", "P", "E")
    step = min(power // 3, len(unit) - 1)
    return f"{10 ** (power - 3 * step)}{unit[step]}"
