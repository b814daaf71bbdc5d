"""What one layer keeps of every token: the entries that vLLM allocates a cache for.

Sources, vLLM 0.32: `v1/kv_cache_interface.py`; sparse attention `models/deepseek_v2.py:DeepseekV32IndexerCache` and
`models/deepseek_v32/attention.py` (which layers have an indexer); `models/minimax_m3/common/indexer.py`; DeepSeek-V4
`models/deepseek_v4/attention.py`, `compressor.py` and `v1/attention/backends/mla/sparse_swa.py`.
"""

import math
from collections.abc import Iterable
from fractions import Fraction

from autoadapter.analyze import kv_cache
from autoadapter.analyze.config import Config
from autoadapter.analyze.layers import PARALLEL, layer_count
from autoadapter.artifacts import CacheEntry

ENCODERS_ONLY = {
    "bert", "roberta", "xlm-roberta", "xlm-roberta-xl", "modernbert", "distilbert", "electra", "nomic_bert", "gte",
    "new", "mpnet", "deberta", "deberta-v2", "albert", "camembert", "eurobert", "jina_bert",
}  # fmt: skip
"""Families that read a text at once and keep nothing of it (vLLM's encoder-only attention has no cache)."""
ELEMENT_BYTES = {"cache": 2, "bfloat16": 2, "uint8": 1, "float32": 4}
"""Of a 16-bit cache, vLLM's `--kv-cache-dtype auto` for 16-bit models."""
SCALE_BLOCK = 128
"""Elements of an indexer key that share one float32 scale."""
OVERLAPPING = 4
"""The compression ratio at which DeepSeek-V4's compressor looks two entries wide and its layers have an indexer."""


def layer_caches(config: Config, layer: int, kind: str) -> tuple[CacheEntry, ...]:
    """Cache entries of one layer; none where it does not attend or reads the cache of another layer.

    Args:
        config: the language model's.
        layer: its number, counted from 0.
        kind: its mixer, as `layer_kinds` has it.
    """
    if kind not in kv_cache.CACHED or config.text("model_type") in ENCODERS_ONLY or _reads_another(config, layer):
        return ()
    if (ratios := config.integers("compress_ratios")) is not None:
        return _compressed(config, ratios[layer] if layer < len(ratios) else 1)
    latent = kv_cache.latent_elements(config)
    if latent is not None:
        return (CacheEntry(kind="mla", kv_heads=1, key_dim=latent, value_dim=0), *_indexer(config, layer))
    return (_heads(config, layer, kind), *_block_indexer(config, layer))


def bytes_per_token(caches: Iterable[CacheEntry], *, windowed_only: bool = False) -> int:
    """Bytes of a 16-bit cache for one token, summed over entries of all layers and rounded up.

    Args:
        caches: entries of each layer.
        windowed_only: leave out what grows with every token.
    """
    counted = [entry for entry in caches if entry.window is not None or not windowed_only]
    return math.ceil(sum((_token_bytes(entry) for entry in counted), Fraction(0)))


def _token_bytes(entry: CacheEntry) -> Fraction:
    elements = entry.kv_heads * (entry.key_dim + entry.value_dim)
    return Fraction(elements * ELEMENT_BYTES[entry.dtype], entry.tokens_per_entry)


def _reads_another(config: Config, layer: int) -> bool:
    """The last layers of Gemma-3n and Gemma-4 attend to what an earlier layer keeps."""
    shared = config.integer("num_kv_shared_layers") or 0
    return 0 < shared and layer >= layer_count(config) - shared


def _heads(config: Config, layer: int, kind: str) -> CacheEntry:
    heads = kv_cache.layer_heads(config, layer, kind)
    sizes = {"kv_heads": heads.kv_heads, "key_dim": heads.key_dim, "value_dim": heads.value_dim}
    window = kv_cache.window(config, kind)
    return CacheEntry.model_validate({"kind": "full_attention" if kind == PARALLEL else kind, "window": window} | sizes)


def _indexer(config: Config, layer: int) -> tuple[CacheEntry, ...]:
    """DeepSeek sparse attention: keys of 8 bits, with a 32-bit scale for each 128 of them."""
    width = config.integer("index_head_dim")
    if not width or not has_indexer(config, layer):
        return ()
    return (CacheEntry(kind="indexer", kv_heads=1, key_dim=_with_scales(width), value_dim=0, dtype="uint8"),)


def has_indexer(config: Config, layer: int) -> bool:
    """Whether a layer of sparse attention chooses tokens itself; others take the choice of one before them."""
    pattern = config.get("index_topk_pattern")
    if isinstance(pattern, str | list):
        return layer >= len(pattern) or pattern[layer] != "S"
    offset = config.integer("index_skip_topk_offset")
    every = config.integer("index_topk_freq") or 1
    return max(layer - (2 if offset is None else offset) + 1, 0) % every == 0


def _with_scales(width: int) -> int:
    return width + width // SCALE_BLOCK * 4


def _block_indexer(config: Config, layer: int) -> tuple[CacheEntry, ...]:
    """MiniMax-M3: one 16-bit index key a token, in the layers that `sparse_attention_freq` marks."""
    marked = config.integers("sparse_attention_config.sparse_attention_freq") or ()
    width = config.integer("sparse_attention_config.sparse_index_dim")
    if not width or layer >= len(marked) or not marked[layer]:
        return ()
    return (CacheEntry(kind="indexer", kv_heads=1, key_dim=width, value_dim=0, dtype="bfloat16"),)


def _compressed(config: Config, ratio: int) -> tuple[CacheEntry, ...]:
    """DeepSeek-V4: a window of latents in every layer; beside it one entry for `ratio` tokens, and what makes it."""
    width = config.integer("head_dim") or 0
    window = config.integer("sliding_window")
    entries = [CacheEntry(kind="mla", kv_heads=1, key_dim=width, value_dim=0, window=window)]
    if ratio <= 1:
        return tuple(entries)
    entries.append(CacheEntry(kind="mla", kv_heads=1, key_dim=width, value_dim=0, tokens_per_entry=ratio))
    entries.append(_compressor("mla", width, ratio))
    index = config.integer("index_head_dim")
    if index and ratio == OVERLAPPING:
        keys = {"key_dim": _with_scales(index), "dtype": "uint8", "tokens_per_entry": ratio}
        entries.append(CacheEntry.model_validate({"kind": "indexer", "kv_heads": 1, "value_dim": 0} | keys))
        entries.append(_compressor("indexer", index, ratio))
    return tuple(entries)


def _compressor(kind: str, width: int, ratio: int) -> CacheEntry:
    """Partial sums and scores of the tokens that the next entry is made of, in 32 bits."""
    overlap = 2 if ratio == OVERLAPPING else 1
    sizes = {"kv_heads": 1, "key_dim": 2 * overlap * width, "value_dim": 0}
    return CacheEntry.model_validate({"kind": kind, "dtype": "float32", "window": overlap * ratio} | sizes)
