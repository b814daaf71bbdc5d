"""The memory of a device as a bar of characters."""

from collections.abc import Sequence

from autoadapter.artifacts import LayoutSizing, Sizing
from autoadapter.cli.output import Out
from autoadapter.rendering.layouts import devices
from autoadapter.rendering.memory_parts import Kind, memory_parts
from autoadapter.rendering.words import gib, gib_range

BLOCKS: dict[Kind, str] = {"weights": "█", "overhead": "▓", "uncertain": "▒", "KV": "░", "free": "·"}
LETTERS: dict[Kind, str] = {"weights": "#", "overhead": "=", "uncertain": "~", "KV": "-", "free": "."}
STYLES: dict[Kind, str] = {
    "weights": "blue",
    "overhead": "yellow",
    "uncertain": "dim yellow",
    "KV": "green",
    "free": "dim",
}
WORDS: dict[Kind, str] = {
    "weights": "weights",
    "overhead": "other",
    "uncertain": "other or KV",
    "KV": "KV",
    "free": "free",
}
SHARE, WIDEST, NARROWEST = 0.55, 110, 20
"""Part of the screen's width for the bar, the widest screen that counts, and the fewest characters."""


def draw_bars(out: Out, rows: Sequence[tuple[str, Sizing, LayoutSizing]]) -> None:
    """A bar a row, of the fullest device under a layout, and what the characters mean in GiB."""
    signs = BLOCKS if out.draws_blocks else LETTERS
    room = max((len(name) for name, _, _ in rows), default=0)
    for name, sizing, layout in rows:
        parts = memory_parts(sizing, layout)
        lengths = cells([part.size for part in parts], max(int(min(out.width, WIDEST) * SHARE), NARROWEST))
        bar = [(signs[part.kind] * length, STYLES[part.kind]) for part, length in zip(parts, lengths, strict=True)]
        each = f"{devices(layout)} × " if devices(layout) > 1 else ""
        out.spans([(f"{name:<{room}}  ", ""), *bar, (f"  {each}{gib(sizing.hardware.memory_bytes)} GiB", "dim")])
    if rows:
        words = _sizes(rows[0][1], rows[0][2]) if len(rows) == 1 else WORDS
        out.spans([(f"{signs[kind]} {text}  ", STYLES[kind]) for kind, text in words.items()])


def _sizes(sizing: Sizing, layout: LayoutSizing) -> dict[Kind, str]:
    pool = gib_range(layout.kv_pool) if layout.kv_pool else ""
    words: dict[Kind, str] = {"uncertain": WORDS["uncertain"], "KV": f"KV {pool}"}
    parts = [part for part in memory_parts(sizing, layout) if part.size > 0]
    return {part.kind: words.get(part.kind, f"{WORDS[part.kind]} {gib(part.size)}") for part in parts}


def cells(sizes: Sequence[int], width: int) -> list[int]:
    """Whole characters in proportion that sum up to `width`; what is there at all gets one."""
    there = [max(size, 0) for size in sizes]
    total, least = sum(there), sum(size > 0 for size in there)
    if not total:
        return [0 for _ in there]
    exact = [size * (width - least) / total for size in there]
    lengths = [int(share) + (size > 0) for size, share in zip(there, exact, strict=True)]
    by_rest = sorted(range(len(exact)), key=lambda at: int(exact[at]) - exact[at])
    for at in by_rest[: width - sum(lengths)]:
        lengths[at] += 1
    return lengths
