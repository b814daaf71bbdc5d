"""What mixing tokens costs: attention over caches, and recurrent state."""

from collections.abc import Iterator
from typing import NamedTuple

from autoadapter.artifacts import CacheEntry, LayerGroup, ModelProfile, StateEntry

FIXED_BYTES = {"uint8": 1, "bfloat16": 2, "float16": 2, "float32": 4}
MLA_HEAD = 128
"""`qk_nope_head_dim` and `v_head_dim` of DeepSeek-V2, V3 and Kimi-K2."""
SPARSE_TOKENS = 2048
"""`index_topk` of DeepSeek-V3.2 and GLM-5: tokens that an indexer leaves to attention."""
STATE_FLOPS = 4
"""Per element and token: decay, add, and a multiply-add to read it out."""
MLA, INDEXER = "mla", "indexer"


class Step(NamedTuple):
    """One phase: new tokens, requests, and tokens that each request already holds."""

    tokens: int
    requests: int
    context: int
    kv_element_bytes: int

    @property
    def is_prefill(self) -> bool:
        """Whether the cache was empty: then the tokens see one another."""
        return self.context == 0


class TokenWork(NamedTuple):
    """FLOPs and bytes on one rank, one layer."""

    name: str
    flops: float
    bytes: float


def cache_work(profile: ModelProfile, group: LayerGroup, tensor: int, step: Step) -> Iterator[TokenWork]:
    """Scores and values over what a layer caches. Prefill writes the cache once, decode reads it once."""
    is_sparse = any(cache.kind == INDEXER for cache in group.caches)
    for cache in group.caches:
        seen = _pairs(cache, step, sparse=is_sparse and cache.kind != INDEXER)
        entries = step.tokens if step.is_prefill else seen
        size = entries * entry_bytes(cache, tensor, step.kv_element_bytes) / cache.tokens_per_entry
        flops = 2.0 * seen * _head_flops(profile, cache, tensor, step) / cache.tokens_per_entry
        yield TokenWork(INDEXER if cache.kind == INDEXER else "attention", flops, size)


def _pairs(cache: CacheEntry, step: Step, *, sparse: bool) -> float:
    """Pairs of a query and a token that it sees, over all requests."""
    window = min(cache.window or SPARSE_TOKENS, SPARSE_TOKENS) if sparse else cache.window
    if not step.is_prefill:
        return step.requests * float(min(step.context, window) if window else step.context)
    if window is None or window >= step.tokens:
        return _triangle(step.tokens)
    if cache.kind == "chunked_attention":
        return step.tokens // window * _triangle(window) + _triangle(step.tokens % window)
    return _triangle(window) + float(step.tokens - window) * window


def _triangle(tokens: int) -> float:
    """Pairs under a causal mask."""
    return tokens * (tokens + 1) / 2


def _head_flops(profile: ModelProfile, cache: CacheEntry, tensor: int, step: Step) -> float:
    """Multiply-adds of one pair, all query heads of a rank. MLA multiplies with the latent itself only in decode."""
    heads = profile.attention.num_attention_heads / tensor
    if cache.kind == INDEXER:
        return float(cache.key_dim * cache.kv_heads)
    if cache.kind != MLA:
        return heads * (cache.key_dim + cache.value_dim)
    rope = profile.attention.qk_rope_head_dim or 0
    if step.is_prefill:
        return heads * (MLA_HEAD + rope + MLA_HEAD)
    return heads * (cache.key_dim + cache.key_dim - rope)


def entry_bytes(cache: CacheEntry, tensor: int, element: int) -> int:
    """Bytes of one token in one layer on one rank; a latent and an indexer's keys are whole on each."""
    heads = cache.kv_heads if cache.kind in (MLA, INDEXER) else max(1, cache.kv_heads // tensor)
    size = FIXED_BYTES.get(cache.dtype, element)
    return heads * (cache.key_dim + cache.value_dim) * size


def state_work(group: LayerGroup, tensor: int, step: Step) -> Iterator[TokenWork]:
    """Recurrent state: each token updates it, each step reads and writes it once a request."""
    for state in group.states:
        elements = _rank_elements(state, tensor)
        size = 2.0 * elements * FIXED_BYTES.get(state.dtype, 2) * step.requests
        yield TokenWork("state", STATE_FLOPS * elements * step.tokens, size)


def _rank_elements(state: StateEntry, tensor: int) -> float:
    extra = 0 if not state.groups or state.groups % tensor == 0 else tensor - state.groups
    return (state.elements + (state.groups + extra) * state.elements_per_group) / tensor
