"""Layouts in words: a table's cells, and refusals by reason."""

from collections.abc import Iterator, Sequence

from autoadapter.artifacts import LayoutSizing
from autoadapter.rendering.words import gib

COLUMNS = ("layout", "weights", "other", "KV pool", "KV tokens", "at once", "longest")


def layout_name(layout: LayoutSizing) -> str:
    """`TP1`, `TP4 PP2`, `TP2 DP4 EP`."""
    sizes = layout.parallelism
    parts = [f"TP{sizes.tensor_parallel_size}"]
    parts += [f"PP{sizes.pipeline_parallel_size}"] if sizes.pipeline_parallel_size > 1 else []
    parts += [f"DP{sizes.data_parallel_size}"] if sizes.data_parallel_size > 1 else []
    return " ".join([*parts, *(["EP"] if layout.expert_parallel else [])])


def serving_layouts(layouts: Sequence[LayoutSizing]) -> list[LayoutSizing]:
    """Those that serve: by tensor parallelism alone first, then with whole experts, replicas and stages."""

    def plainness(layout: LayoutSizing) -> tuple[bool, bool, bool, int]:
        sizes = layout.parallelism
        staged, copied = sizes.pipeline_parallel_size > 1, sizes.data_parallel_size > 1
        return staged, copied, layout.expert_parallel, devices(layout)

    return sorted((layout for layout in layouts if layout.legal and layout.fits), key=plainness)


def devices(layout: LayoutSizing) -> int:
    """GPUs that a layout uses."""
    sizes = layout.parallelism
    return sizes.tensor_parallel_size * sizes.pipeline_parallel_size * sizes.data_parallel_size


def row(layout: LayoutSizing, name: str) -> tuple[str, ...]:
    """Cells of `COLUMNS` for a layout."""
    other = [part for part in (layout.activation, layout.non_torch, layout.graphs) if part is not None]
    low, high = sum(part.low for part in other), sum(part.high for part in other)
    spread = gib(low) if gib(low) == gib(high) else f"{gib(low)}–{gib(high)}"
    kv = layout.kv
    return (
        name,
        gib(layout.weight_bytes),
        spread if other else "–",
        gib(layout.kv_pool.likely) if layout.kv_pool else "–",
        f"{kv.tokens:,}" if kv else "–",
        f"{kv.max_concurrency:.1f}" if kv else "–",
        f"{kv.longest:,}" if kv else "–",
    )


def refusals(layouts: Sequence[LayoutSizing]) -> Iterator[tuple[str, str]]:
    """(names of layouts, reason), one pair a reason."""
    by_reason: dict[str, list[str]] = {}
    for layout in layouts:
        if not (layout.legal and layout.fits):
            by_reason.setdefault(layout.reason or "it does not fit", []).append(layout_name(layout))
    for reason, names in by_reason.items():
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        yield ", ".join(names[:4]) + more, reason
