"""Sizes, layouts and layers in words: the same on the screen, in the report and in tables."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from autoadapter.artifacts import CacheEntry, LayerGroup, ModelProfile
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
CACHE_BYTES = {
    "bfloat16": 2, "float16": 2, "half": 2, "float32": 4, "float": 4, "uint8": 1, "int8": 1,
    "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "fp8_inc": 1, "nvfp4": 1,
}  # fmt: skip
"""Of one element, by the words of `--kv-cache-dtype`; `nvfp4` of a latent (MLA), elsewhere `NVFP4_BYTES`."""
NVFP4_BYTES = 1 / 2 + 1 / 16
"""Half a byte an element and a scale byte a group of 16: vLLM 0.32 `nvfp4_kv_cache_full_dim`."""
LATENT_KINDS = ("mla", "indexer")
LEAST_NUMBER = 0.0001
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


def is_compressed(caches: Iterable[CacheEntry]) -> bool:
    """Whether tokens share entries, so that no token has bytes of its own."""
    return any(cache.tokens_per_entry > 1 for cache in caches)


def cache_bytes_per_token(caches: Iterable[CacheEntry], kv_dtype: str | None = None) -> float:
    """What layers keep of a token.

    Args:
        caches: entries, of one layer or of all.
        kv_dtype: the word of `--kv-cache-dtype`; None is a 16-bit cache.
    """
    return sum(
        cache.kv_heads
        * (cache.key_dim + cache.value_dim)
        * _element_bytes(cache, kv_dtype)
        / max(cache.tokens_per_entry, 1)
        for cache in caches
    )


def _element_bytes(cache: CacheEntry, kv_dtype: str | None) -> float:
    word = (kv_dtype or "bfloat16") if cache.dtype == "cache" else cache.dtype
    if word == "nvfp4" and cache.kind not in LATENT_KINDS:
        return NVFP4_BYTES
    return CACHE_BYTES.get(word, 2)


def kv_dtype_of(profile: ModelProfile) -> str | None:
    """The type that the checkpoint fixes for its KV cache, where it fixes one whose size is known."""
    word = profile.quantization.kv_cache_dtype if profile.quantization else None
    return word if word in CACHE_BYTES else None


def number(value: float) -> str:
    """A number that is never in exponents: `1,000,000`, `0.25`, `4,096`."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= LEAST_NUMBER else f"under {LEAST_NUMBER}"


def state_bytes(group: LayerGroup) -> int:
    """What one layer keeps of a request, whatever its length."""
    return sum(
        (state.elements + state.groups * state.elements_per_group) * STATE_BYTES.get(state.dtype, 2)
        for state in group.states
    )
