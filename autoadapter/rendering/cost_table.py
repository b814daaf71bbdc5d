"""Where a step's time goes, operator by operator."""

from collections.abc import Iterator
from dataclasses import dataclass

from autoadapter.artifacts import CostProfile
from autoadapter.artifacts.sizing import OperatorCost
from autoadapter.rendering.roofline import PHASES
from autoadapter.rendering.words import number
from autoadapter.units import human_bytes

MOST_ROWS = 12


@dataclass(frozen=True)
class CostRow:
    """An operator in words; `percent` is its share of the phase's time."""

    name: str
    flops: str
    moved: str
    intensity: str
    time: str
    percent: float
    bound: str


@dataclass(frozen=True)
class CostTable:
    """One phase, the longest first."""

    phase: str
    title: str
    rows: tuple[CostRow, ...]


def cost_tables(cost: CostProfile) -> tuple[CostTable, ...]:
    """A table a phase, those that have operators."""
    requests = "1 request" if cost.decode_batch == 1 else f"{cost.decode_batch:,} requests"
    said = {
        "prefill": f"Prefill of {cost.prefill_tokens:,} tokens",
        "decode": f"One decoding step of {requests} at {cost.context:,} tokens",
    }
    tables = []
    for phase in PHASES:
        mine = sorted((row for row in cost.operators if row.phase == phase), key=lambda row: -row.seconds)
        total = sum(row.seconds for row in mine)
        if mine:
            title = f"{said[phase]}: at least {duration(total)}"
            tables.append(CostTable(phase, title, tuple(_rows(mine, total))))
    return tuple(tables)


def _rows(ordered: list[OperatorCost], total: float) -> Iterator[CostRow]:
    for row in ordered[:MOST_ROWS]:
        yield _row(row.name, (row.flops, row.bytes, row.seconds), total, row.bound)
    rest = ordered[MOST_ROWS:]
    if rest:
        sums = (sum(row.flops for row in rest), sum(row.bytes for row in rest), sum(row.seconds for row in rest))
        yield _row(f"{len(rest)} more", sums, total, "")


def _row(name: str, sums: tuple[float, float, float], total: float, bound: str) -> CostRow:
    flops, moved, seconds = sums
    return CostRow(
        name=name,
        flops=_work(flops),
        moved=human_bytes(moved),
        intensity=number(flops / moved) if moved else "–",
        time=duration(seconds),
        percent=round(100 * seconds / total, 2) if total else 0.0,
        bound=bound,
    )


def _work(flops: float) -> str:
    """1.2e12 → `1.2 TFLOP`."""
    units = ("FLOP", "KFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP")
    step = min(max(len(f"{flops:.0f}") - 1, 0) // 3, len(units) - 1)
    return f"{number(flops / 1000**step)} {units[step]}"


def duration(seconds: float) -> str:
    """0.00123 → `1.23 ms`."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{number(seconds / size)} {unit}"
    return f"{number(seconds * 1e9)} ns"
