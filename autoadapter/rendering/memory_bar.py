"""The memory bar of a GPU, for the page."""

from dataclasses import dataclass
from typing import Self

from autoadapter.artifacts import LayoutSizing, Sizing
from autoadapter.rendering.layouts import devices
from autoadapter.rendering.memory_parts import Part, memory_parts
from autoadapter.rendering.words import gib, gib_range

WORDS = {
    "weights": "weights",
    "overhead": "activations, graphs and the like, at least",
    "uncertain": "overhead or KV cache: the estimate's width",
    "KV": "KV cache, at least",
    "free": "left alone by vLLM",
}


@dataclass(frozen=True)
class Segment:
    """A stretch of the bar."""

    kind: str
    """A CSS class too."""
    percent: float
    tip: str


@dataclass(frozen=True)
class MemoryBar:
    """One device under one layout; all devices of the layout are alike or emptier."""

    title: str
    note: str
    segments: tuple[Segment, ...]
    description: str

    @classmethod
    def of(cls, sizing: Sizing, layout: LayoutSizing, title: str) -> Self:
        """The bar of the fullest device."""
        total = sizing.hardware.memory_bytes
        parts = memory_parts(sizing, layout)
        whole = max(sum(part.size for part in parts), 1)
        count = devices(layout)
        each = f"each of {count} devices" if count > 1 else "one device"
        pool = f", KV cache {gib_range(layout.kv_pool)} GiB" if layout.kv_pool else ""
        shown = [part for part in parts if part.size > 0]
        return cls(
            title=title,
            note=f"{each} of {gib(total)} GiB: weights {gib(layout.weight_bytes)} GiB{pool}",
            segments=tuple(Segment(part.kind, round(100 * part.size / whole, 3), _tip(part)) for part in shown),
            description="; ".join(_tip(part) for part in shown),
        )


def _tip(part: Part) -> str:
    return f"{WORDS[part.kind]}: {gib(part.size)} GiB"
