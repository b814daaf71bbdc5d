"""Layouts in words: a table's cells, and refusals by reason."""

from collections.abc import Iterator, Sequence

from autoadapter.artifacts import LayoutSizing, Sizing
from autoadapter.rendering.words import gib

REPLICAS = "KV tokens and requests at once are those of all replicas together"
"""What to say where a layout has replicas (DP)."""
COLUMNS = ("layout", "weights", "other", "KV pool", "KV tokens", "at once", "longest")


def layout_name(layout: LayoutSizing) -> str:
    """`TP1`, `TP4 PP2`, `TP2 DP4 EP`."""
    sizes = layout.parallelism
    parts = [f"TP{sizes.tensor_parallel_size}"]
    parts += [f"PP{sizes.pipeline_parallel_size}"] if sizes.pipeline_parallel_size > 1 else []
    parts += [f"DP{sizes.data_parallel_size}"] if sizes.data_parallel_size > 1 else []
    return " ".join([*parts, *(["EP"] if layout.expert_parallel else [])])


def serving_layouts(layouts: Sequence[LayoutSizing]) -> list[LayoutSizing]:
    """Those that serve, in the sizing's order."""
    return [layout for layout in layouts if layout.legal and layout.fits]


def foremost_first(layouts: Sequence[LayoutSizing], count: int) -> list[LayoutSizing]:
    """For a machine of `count` GPUs: the smallest, then those that use all of them without stages, then others."""
    if not layouts:
        return []
    smallest = layouts[0]

    def place(layout: LayoutSizing) -> tuple[int, bool, bool, bool]:
        sizes = layout.parallelism
        if layout is smallest:
            return 0, False, False, False
        mixed = sizes.tensor_parallel_size > 1 and sizes.data_parallel_size > 1
        whole = devices(layout) == count and sizes.pipeline_parallel_size == 1
        if whole:
            return 1, mixed, sizes.data_parallel_size > 1, layout.expert_parallel
        return 2, sizes.pipeline_parallel_size > 1, sizes.data_parallel_size > 1, layout.expert_parallel

    return sorted(layouts, key=place)


def devices(layout: LayoutSizing) -> int:
    """GPUs that a layout uses."""
    sizes = layout.parallelism
    return sizes.tensor_parallel_size * sizes.pipeline_parallel_size * sizes.data_parallel_size


def row(layout: LayoutSizing, name: str) -> tuple[str, ...]:
    """Cells of `COLUMNS` for a layout: bytes of the fullest device, tokens and requests of all replicas."""
    other = [part for part in (layout.activation, layout.non_torch, layout.graphs) if part is not None]
    low, high = sum(part.low for part in other), sum(part.high for part in other)
    spread = gib(low) if gib(low) == gib(high) else f"{gib(low)}–{gib(high)}"
    tokens, requests = cells_of_cache(layout)
    return (
        name,
        gib(layout.weight_bytes),
        spread if other else "–",
        gib(layout.kv_pool.likely) if layout.kv_pool else "–",
        tokens,
        requests,
        f"{layout.kv.longest:,}" if layout.kv else "–",
    )


def cells_of_cache(layout: LayoutSizing) -> tuple[str, str]:
    """Tokens of KV cache, and requests of the whole context at once; of all replicas together."""
    kv, replicas = layout.kv, layout.parallelism.data_parallel_size
    if kv is None:
        return "–", "–"
    return f"{kv.tokens * replicas:,}", f"{kv.max_concurrency * replicas:.1f}"


def terms_words(sizings: Sequence[Sizing]) -> str:
    """Context, and the share of memory that counts: a CPU has its own."""
    shares = {sizing.hardware.kind: f"{sizing.gpu_memory_utilization:g}" for sizing in sizings}
    gpu = shares.get("cuda", next(iter(shares.values())))
    cpu = f" (CPU {shares['cpu']})" if shares.get("cpu", gpu) != gpu else ""
    return f"context {sizings[0].max_model_len:,}, utilization {gpu}{cpu}"


def smallest_words(sizing: Sizing) -> str:
    """Which hardware would do, and what `smallest` means; or that none would."""
    if sizing.smallest:
        return f"smallest that serves one such request (least total GPU memory): {sizing.smallest}"
    return "nothing in the catalogue serves one such request"


def refusals(layouts: Sequence[LayoutSizing]) -> Iterator[tuple[str, str]]:
    """(names of layouts, reason), one pair a reason."""
    by_reason: dict[str, list[str]] = {}
    for layout in layouts:
        if not (layout.legal and layout.fits):
            by_reason.setdefault(layout.reason or "it does not fit", []).append(layout_name(layout))
    for reason, names in by_reason.items():
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        yield ", ".join(names[:4]) + more, reason
