"""Sizes, layouts and layers in words: the same on the screen, in the report and in tables."""

from collections.abc import Sequence
from itertools import pairwise

from autoadapter.artifacts import CacheEntry, LayerGroup
from autoadapter.artifacts.sizing import Interval

GIB = 1024**3
MIXERS = {
    "full_attention": "full attention",
    "sliding_attention": "sliding attention",
    "chunked_attention": "chunked attention",
    "state": "recurrent state",
    "hybrid": "attention with recurrent state",
    "none": "no mixer",
}
FEED_FORWARDS = {"dense": "dense MLP", "moe": "experts", "none": "no MLP"}
CACHE_BYTES = {"cache": 2, "bfloat16": 2, "float16": 2, "uint8": 1, "float32": 4}
"""Of one element; `cache` is a 16-bit KV cache."""
STATE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}


def gib(count: float) -> str:
    """Bytes as a bare number of GiB, with two digits where it is small."""
    value = count / GIB
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def gib_range(interval: Interval) -> str:
    """An interval in GiB: `2.10–3.40`, or one number where both ends read alike."""
    low, high = gib(interval.low), gib(interval.high)
    return low if low == high else f"{low}–{high}"


def group_words(group: LayerGroup) -> str:
    """`full attention (MLA) + experts`."""
    latent = any(cache.kind == "mla" for cache in group.caches)
    windows = sorted({cache.window for cache in group.caches if cache.window})
    notes = [*(["MLA"] if latent else []), *(f"{window:,} tokens" for window in windows)]
    mixer = MIXERS[group.mixer] + (f" ({', '.join(notes)})" if notes else "")
    return f"{mixer} + {FEED_FORWARDS[group.feed_forward]}"


def layer_numbers(numbers: Sequence[int]) -> str:
    """(0, 1, 2, 5, 7) → `0–2, 5, 7`; evenly spaced ones as `0, 4, …, 28`."""
    steps = {second - first for first, second in pairwise(numbers)}
    if len(numbers) > 3 and len(steps) == 1 and steps != {1}:
        return f"{numbers[0]}, {numbers[1]}, …, {numbers[-1]}"
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = [str(first) if first == last else f"{first}–{last}" for first, last in runs]
    return ", ".join(texts if len(texts) <= 8 else [*texts[:6], "…", texts[-1]])


def cache_bytes_per_token(caches: Sequence[CacheEntry]) -> float:
    """What one layer keeps of a token, at a 16-bit KV cache."""
    return sum(
        cache.kv_heads
        * (cache.key_dim + cache.value_dim)
        * CACHE_BYTES.get(cache.dtype, 2)
        / max(cache.tokens_per_entry, 1)
        for cache in caches
    )


def state_bytes(group: LayerGroup) -> int:
    """What one layer keeps of a request, whatever its length."""
    return sum(
        (state.elements + state.groups * state.elements_per_group) * STATE_BYTES.get(state.dtype, 2)
        for state in group.states
    )
