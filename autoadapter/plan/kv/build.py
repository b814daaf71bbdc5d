"""Specs from a model's structure: what each layer's `get_kv_cache_spec` would answer on one rank.

Source: vLLM 0.32 `model_executor/layers/attention/`, `layers/mamba/abstract.py`, `models/deepseek_v2.py`
(`DeepseekV32IndexerCache`), `models/deepseek_v4/attention.py`, `compressor.py` and
`v1/attention/backends/mla/sparse_swa.py`.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from autoadapter.artifacts import CacheEntry, ModelStructure, StateEntry
from autoadapter.once import once_each
from autoadapter.plan.kv.alignment import COMPRESSED_BLOCK, Blocks, entries, is_compressed, rank_heads, settle_blocks
from autoadapter.plan.kv.question import KvQuestion
from autoadapter.plan.kv.spec import Kind, LayerCache, Spec
from autoadapter.plan.kv.states import cache_mode, state_bytes
from autoadapter.plan.kv.widths import attention_row, latent_row

PACKED_ROW, PACKED_ALIGNMENT, PLAIN_ALIGNMENT = 584, 576, 512
"""DeepSeek-V4: bytes of a token as fp8_ds_mla, and what pages are rounded up to with and without that type."""
COMPRESSED_WINDOW_BLOCK = 64
COMPRESSOR_BLOCKS = ((8, 4), (128, 8))
"""DeepSeek-V4's compressor states: window in tokens → tokens of a block."""


class Keeper(NamedTuple):
    """What a layer keeps."""

    caches: tuple[CacheEntry, ...]
    states: tuple[StateEntry, ...]


def build_specs(structure: ModelStructure, question: KvQuestion) -> tuple[LayerCache, ...]:
    """Caches of all layers on one rank, in the order of the layers."""
    builder = _Builder(structure, question)
    made = {keeper: tuple(builder.specs(*keeper)) for keeper in dict.fromkeys(_keepers(structure).values())}
    return tuple(LayerCache(layer, spec) for layer, keeper in _keepers(structure).items() for spec in made[keeper])


@once_each
def _keepers(structure: ModelStructure) -> Mapping[int, Keeper]:
    """What each layer keeps, in the order of the layers; the same object where layers keep the same."""
    same: dict[Keeper, Keeper] = {}
    groups = [(group.layers, Keeper(group.caches, group.states)) for group in structure.groups]
    kept = {layer: same.setdefault(keeper, keeper) for layers, keeper in groups for layer in layers}
    return {layer: kept[layer] for layer in sorted(kept)}


class _Builder:
    """What all layers share."""

    def __init__(self, structure: ModelStructure, question: KvQuestion) -> None:
        self._question = question
        self._blocks = settle_blocks(structure, question)
        self._compressed = is_compressed(structure)
        self._word = cache_word(structure, question)
        self._mode = cache_mode(structure, question)

    def specs(self, caches: tuple[CacheEntry, ...], states: tuple[StateEntry, ...]) -> Iterator[Spec]:
        """Specs of a layer that keeps these."""
        leads = any(entry.kind == "indexer" for entry in caches)
        for entry in caches:
            yield compressed(entry, self._question) if self._compressed else self._plain(entry, leads=leads)
        if states:
            yield self._state(states)

    def _plain(self, entry: CacheEntry, *, leads: bool) -> Spec:
        if entry.kind in ("mla", "indexer"):
            return self._latent(entry, leads=leads)
        return attention(entry, self._question, self._blocks)

    def _latent(self, entry: CacheEntry, *, leads: bool) -> Spec:
        """The latent of MLA, apart where the layer has an indexer, or the index keys of sparse attention."""
        row = latent_row(entry, self._word, self._question.model_dtype)
        identity = (1, entry.key_dim, 0, entry.dtype, entry.kind, int(leads and entry.kind == "mla"))
        kind: Kind = "sliding_mla" if entry.window is not None else "mla"
        return Spec(kind, self._blocks.attention, row, identity, window=entry.window)

    def _state(self, states: tuple[StateEntry, ...]) -> Spec:
        size, page = state_bytes(states, self._question), self._blocks.state_page
        block = self._blocks.attention if self._mode == "align" else self._question.max_model_len
        return Spec("state", block, size, padded_bytes=max(size, page) if page else None)


def attention(entry: CacheEntry, question: KvQuestion, blocks: Blocks) -> Spec:
    """Keys and values of one layer."""
    heads, word = rank_heads(entry, question), question.kv_cache_dtype
    row = attention_row(_as_counted(entry, question), heads, word, question.model_dtype)
    identity = (heads, entry.key_dim, entry.value_dim, entry.dtype)
    if entry.kind == "sliding_attention":
        return Spec("sliding", _window_block(question, blocks), row, identity, window=entry.window)
    if entry.kind == "chunked_attention":
        return Spec("chunked", blocks.attention, row, identity, chunk=entry.window)
    return Spec("full", blocks.attention, row, identity)


def _as_counted(entry: CacheEntry, question: KvQuestion) -> CacheEntry:
    """A chunk's values are taken to be as wide as its keys; in old versions a window's too."""
    own = question.rules.values_have_own_width and entry.kind != "chunked_attention"
    if entry.kind == "full_attention" or own:
        return entry
    return entry.model_copy(update={"value_dim": entry.key_dim})


def _window_block(question: KvQuestion, blocks: Blocks) -> int:
    if question.rules.windows_take_smallest_block:
        return blocks.kernel
    if question.rules.windows_take_kernel_blocks:
        return max(blocks.kernel, blocks.attention // blocks.kernel * blocks.kernel)
    return blocks.attention


def cache_word(structure: ModelStructure, question: KvQuestion) -> str:
    """The cache type of the latents: sparse kernels of Hopper keep FP8 as `fp8_ds_mla`.

    Source: vLLM 0.32 `_canonicalize_sparse_mla_kv_cache_dtype`.
    """
    word, kinds = question.kv_cache_dtype, {entry.kind for entry in entries(structure)}
    sparse = {"mla", "indexer"} <= kinds and question.device == "cuda"
    return "fp8_ds_mla" if sparse and word.startswith("fp8") else word


def compressed(entry: CacheEntry, question: KvQuestion) -> Spec:
    """DeepSeek-V4: windows of latents, compressed entries, and states of the compressor (of 32 bits)."""
    word = question.kv_cache_dtype
    packed = word.startswith("fp8") or (word == "auto" and question.device == "cuda")
    alignment = PACKED_ALIGNMENT if packed else PLAIN_ALIGNMENT
    row = PACKED_ROW if packed and entry.dtype == "cache" else latent_row(entry, word, question.model_dtype)
    identity = (1, entry.key_dim, 0, entry.dtype, entry.kind)
    if entry.window is None:
        shared = entry.tokens_per_entry
        return Spec("mla", COMPRESSED_BLOCK, row, identity, tokens_per_entry=shared, alignment=alignment)
    block = COMPRESSED_WINDOW_BLOCK
    if entry.dtype == "float32":
        block = next((size for window, size in COMPRESSOR_BLOCKS if entry.window <= window), 8)
    return Spec("sliding_mla", block, row, identity, window=entry.window, alignment=alignment)
