"""Geometry of the report's charts: numbers in, rectangles and points out. The template only draws."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 640, 240
LEFT, RIGHT, TOP, BOTTOM = 56, 8, 12, 40
PLOT_WIDTH, PLOT_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
MOST_LABELS = 12
WIDEST_BAR = 56.0


@dataclass(frozen=True)
class Bar:
    """A rectangle in SVG units. `tip` is read out and shown on hover."""

    series: int
    x: float
    y: float
    width: float
    height: float
    tip: str


@dataclass(frozen=True)
class Tick:
    """A mark on an axis."""

    at: float
    label: str


@dataclass(frozen=True)
class Chart:
    """A drawing: bars or lines over two axes."""

    title: str
    description: str
    """What a reader who cannot see it needs to know."""
    unit: str
    series: tuple[str, ...]
    bars: tuple[Bar, ...] = ()
    lines: tuple[str, ...] = ()
    """SVG point lists, one per series."""
    x_ticks: tuple[Tick, ...] = ()
    y_ticks: tuple[Tick, ...] = ()
    x_label: str = ""

    width = WIDTH
    height = HEIGHT
    left = LEFT
    right = WIDTH - RIGHT
    top = TOP
    base = HEIGHT - BOTTOM


@dataclass(frozen=True)
class Words:
    """What surrounds a chart."""

    title: str
    description: str
    unit: str
    x_label: str = ""


def bars(words: Words, series: Sequence[str], groups: Sequence[tuple[str, Sequence[float]]]) -> Chart:
    """Grouped vertical bars from zero.

    Args:
        words: title and the like.
        series: names, one per bar of a group.
        groups: label and one value per series.
    """
    top = nice_ceiling(max((value for _, values in groups for value in values), default=1.0))
    slot = PLOT_WIDTH / max(len(groups), 1)
    width = min(slot * 0.8 / max(len(series), 1), WIDEST_BAR)
    margin = (slot - width * len(series)) / 2
    drawn = [
        _bar(number, LEFT + slot * at + margin + width * number, width, value / top, f"{label}, {name}: {short(value)}")
        for at, (label, values) in enumerate(groups)
        for number, (name, value) in enumerate(zip(series, values, strict=True))
    ]
    every = math.ceil(len(groups) / MOST_LABELS)
    ticks = [Tick(LEFT + slot * (at + 0.5), label) for at, (label, _) in enumerate(groups) if at % every == 0]
    return Chart(
        words.title,
        words.description,
        words.unit,
        tuple(series),
        bars=tuple(drawn),
        x_ticks=tuple(ticks),
        y_ticks=y_ticks(top),
        x_label=words.x_label,
    )


def shares(words: Words, series: Sequence[tuple[str, Sequence[float]]]) -> Chart:
    """Cumulative shares: what part of the sorted values is at most x, one line a series."""
    top = nice_ceiling(max((value for _, values in series for value in values), default=1.0))
    lines = [_steps(sorted(values), top) for _, values in series]
    ticks = [Tick(LEFT + PLOT_WIDTH * part / 4, short(top * part / 4)) for part in range(5)]
    return Chart(
        words.title,
        words.description,
        words.unit,
        tuple(name for name, _ in series),
        lines=tuple(lines),
        x_ticks=tuple(ticks),
        y_ticks=tuple(Tick(tick.at, f"{float(tick.label):.0%}") for tick in y_ticks(1.0)),
        x_label=words.x_label,
    )


def y_ticks(top: float, parts: int = 4) -> tuple[Tick, ...]:
    """Marks from zero to `top`."""
    steps = [top * part / parts for part in range(parts + 1)]
    return tuple(Tick(TOP + PLOT_HEIGHT * (1 - step / top), short(step)) for step in steps)


def nice_ceiling(value: float) -> float:
    """The next of 1, 2, 2.5, 5 times a power of ten."""
    if not math.isfinite(value) or value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 4, 5, 8, 10) if step * power >= value * 0.9999)


def short(value: float) -> str:
    """Three significant digits, thousands grouped, no exponent for everyday sizes."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _bar(series: int, x: float, width: float, share: float, tip: str) -> Bar:
    height = PLOT_HEIGHT * max(share, 0.0)
    y = TOP + PLOT_HEIGHT - height
    return Bar(series, round(x, 2), round(y, 2), round(width, 2), round(height, 2), tip)


def _steps(ordered: Sequence[float], top: float) -> str:
    points: list[tuple[float, float]] = [(LEFT, TOP + PLOT_HEIGHT)]
    for rank, value in enumerate(ordered, 1):
        x = LEFT + PLOT_WIDTH * value / top
        points += [(x, points[-1][1]), (x, TOP + PLOT_HEIGHT * (1 - rank / len(ordered)))]
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
