"""The layer map: one cell a decoder layer, coloured by what it does."""

from dataclasses import dataclass
from typing import Self

from autoadapter.artifacts import LayerGroup, ModelStructure
from autoadapter.rendering.words import (
    FEED_FORWARDS,
    MIXERS,
    cache_bytes_per_token,
    group_words,
    is_compressed,
    layer_numbers,
    state_bytes,
)
from autoadapter.units import human_bytes

MOST_CELLS = 512


@dataclass(frozen=True)
class Cell:
    """A layer. `mixer` and `feed_forward` are CSS classes as well as the structure's words."""

    number: int
    mixer: str
    feed_forward: str
    tip: str


@dataclass(frozen=True)
class GroupRow:
    """Layers that are alike, in words: what the cells' tips say, readable without a pointer."""

    layers: str
    count: int
    words: str
    cache: str
    weights: str


@dataclass(frozen=True)
class LayerMap:
    """All layers, and what the colours mean."""

    cells: tuple[Cell, ...]
    mixers: tuple[tuple[str, str], ...]
    """Class and words, those that occur."""
    feed_forwards: tuple[tuple[str, str], ...]
    rows: tuple[GroupRow, ...]
    description: str
    """What a reader who cannot see it needs to know."""
    left_out: int
    """Layers beyond what a page can show."""

    @classmethod
    def of(cls, structure: ModelStructure, kv_dtype: str | None = None) -> Self:
        """The map of a model; `kv_dtype` is the KV cache's type where it is not of 16 bit."""
        by_layer = sorted(
            ((number, group) for group in structure.groups for number in group.layers), key=lambda pair: pair[0]
        )
        cells = [_cell(number, group, kv_dtype) for number, group in by_layer[:MOST_CELLS]]
        mixers = {group.mixer for group in structure.groups}
        blocks = {group.feed_forward for group in structure.groups}
        kinds = "; ".join(f"{len(group.layers)} × {group_words(group)}" for group in structure.groups)
        return cls(
            cells=tuple(cells),
            mixers=tuple((name, words) for name, words in MIXERS.items() if name in mixers),
            feed_forwards=tuple((name, words) for name, words in FEED_FORWARDS.items() if name in blocks),
            rows=tuple(_row(group, kv_dtype) for group in structure.groups),
            description=f"{structure.num_layers} decoder layers: {kinds}",
            left_out=structure.num_layers - len(cells),
        )


def _cell(number: int, group: LayerGroup, kv_dtype: str | None) -> Cell:
    weights = human_bytes(group.weights.total)
    return Cell(
        number=number,
        mixer=group.mixer,
        feed_forward=group.feed_forward,
        tip=f"layer {number}: {group_words(group)}; {_kept(group, kv_dtype)}; {weights} of weights",
    )


def _row(group: LayerGroup, kv_dtype: str | None) -> GroupRow:
    return GroupRow(
        layers=layer_numbers(group.layers),
        count=len(group.layers),
        words=group_words(group),
        cache=_kept(group, kv_dtype),
        weights=human_bytes(group.weights.total),
    )


def _kept(group: LayerGroup, kv_dtype: str | None) -> str:
    """What one layer keeps."""
    cache, state = cache_bytes_per_token(group.caches, kv_dtype), state_bytes(group)
    parts = [f"{human_bytes(cache)} a token"] if cache else []
    if is_compressed(group.caches):
        parts = [f"one entry for up to {max(entry.tokens_per_entry for entry in group.caches):,} tokens"]
    parts += [f"{human_bytes(state)} a request"] if state else []
    return " and ".join(parts) or "keeps nothing"
