"""Heads, and what one layer caches of a token.

Formulas: vLLM 0.32 `v1/kv_cache_interface.py`. A layer of full or windowed attention holds K and V for its KV heads;
MLA holds one latent of `kv_lora_rank + qk_rope_head_dim` and no factor 2.
"""

from typing import NamedTuple

from autoadapter.analyze.config import Config
from autoadapter.analyze.layers import CHUNKED, FULL, PARALLEL, SLIDING
from autoadapter.once import once_each

CACHED = (FULL, SLIDING, CHUNKED, PARALLEL)
HEADS = (
    "num_attention_heads", "n_head", "n_heads", "num_heads", "num_query_heads", "n_attention_heads", "attention_heads",
    "decoder_attention_heads",
)  # fmt: skip
KV_HEADS = (
    "num_key_value_heads", "n_head_kv", "num_kv_heads", "multi_query_group_num", "num_attention_groups",
    "attn_config.kv_n_heads", "num_query_groups",
)  # fmt: skip
"""vLLM's order is `n_head_kv`, `num_kv_heads`, `num_key_value_heads`; no known config has two that differ."""
HEAD_DIM = ("head_dim", "hidden_size_per_head", "attention_head_dim", "kv_channels", "d_kv")
OF_SLIDING = "attention_other_setting"
"""Where Step-3.5 keeps what its sliding layers have apart."""
HIDDEN = ("hidden_size", "n_embd", "n_embed", "d_model", "model_dim")


LATENT = {
    "axk1", "deepseek_v2", "deepseek_v3", "deepseek_v32", "deepseek_v4", "deepseek_v41", "dots3_note", "deepseek_mtp",
    "k3_dspark", "glm5_next", "glm5_next_text", "glm_moe_dsa", "glm4_moe_lite", "glm4_moe_lite_mtp", "kimi_k2",
    "kimi_linear", "longcat_flash", "pangu_ultra_moe", "pangu_ultra_moe_mtp", "bailing_hybrid", "bailing_hybrid_mtp",
    "bailing_hybrid_v3_mtp", "hy_v4", "hy_v4_mtp",
}  # fmt: skip
"""Families whose latent vLLM caches; others with a `kv_lora_rank` it computes, and caches, as plain heads.

Source: vLLM 0.32 `model_arch_config_convertor.py:is_deepseek_mla`.
"""
TWICE_AS_WIDE = {"zamba", "zamba2"}
"""Families whose attention reads two hidden states side by side (transformers 5.19 `attention_head_dim`)."""


class Heads(NamedTuple):
    """Geometry of one layer's cache, in heads and elements."""

    kv_heads: int
    key_dim: int
    value_dim: int


def attention_heads(config: Config) -> int:
    """Query heads; the largest where they differ by layer."""
    return config.integer(*HEADS) or 0


@once_each
def kv_heads(config: Config) -> int:
    """Key/value heads; the largest where they differ by layer. Falcon's and MPT's `multi_query` is one head.

    ChatGLM's groups count only while `multi_query_attention` is not false.
    """
    if config.flag("multi_query") and not config.flag("new_decoder_architecture"):
        return 1
    if config.flag("multi_query_attention") is False:
        return attention_heads(config)
    by_block = [heads for heads in _heads_by_block(config) if heads is not None]
    return (by_block and by_block[0]) or config.integer(*KV_HEADS) or attention_heads(config)


@once_each
def _heads_by_block(config: Config) -> tuple[int | None, ...]:
    """Nemotron-NAS states query heads per KV head, block by block; None where a block does not attend."""
    attentions = [block.get("attention") for block in config.objects("block_configs")]
    groups = [attention.get("n_heads_in_group") if isinstance(attention, dict) else None for attention in attentions]
    heads = attention_heads(config)
    return tuple(heads // group if isinstance(group, int) and group > 0 else None for group in groups)


def head_dim(config: Config) -> int:
    """Head size in the sense of vLLM: MLA's latent; else what is explicit; else hidden size over heads."""
    latent = latent_elements(config)
    if latent is not None:
        return latent
    if config.found("kv_lora_rank"):
        return (config.integer("qk_nope_head_dim") or 0) + (config.integer("qk_rope_head_dim") or 0)
    explicit = config.integer(*HEAD_DIM)
    heads, hidden = attention_heads(config), config.integer(*HIDDEN) or 0
    doubled = 2 if config.text("model_type") in TWICE_AS_WIDE else 1
    return explicit or (doubled * hidden // heads if heads else 0)


def latent_elements(config: Config) -> int | None:
    """Elements that MLA caches per token and layer, None without MLA."""
    rank = config.integer("kv_lora_rank")
    model_type = config.defaults.model_type if config.defaults else config.text("model_type")
    named = model_type is not None and (config.defaults or config.family[:1] != ("",))
    if rank is None or (named and model_type not in LATENT):
        return None
    return rank + (config.integer("qk_rope_head_dim") or 0)


def layer_heads(config: Config, layer: int, kind: str) -> Heads:
    """Geometry of one layer: per-layer lists, then what the config keeps apart for sliding or full layers."""
    listed = config.integers(*KV_HEADS) or _heads_by_block(config)
    heads = (listed[layer] if layer < len(listed) else None) or kv_heads(config)
    key = head_dim(config)
    value = key if config.found("kv_lora_rank") else config.integer("v_head_dim") or key
    if kind == SLIDING:
        heads = config.integer("swa_num_key_value_heads", f"{OF_SLIDING}.num_attention_groups") or heads
        narrow = config.integer("swa_head_dim", f"{OF_SLIDING}.head_dim")
        key, value = narrow or key, config.integer("swa_v_head_dim") or narrow or value
    elif (wide := config.integer("global_head_dim")) is not None:
        heads = config.integer("num_global_key_value_heads") or heads
        key = value = wide
    return Heads(heads, key, value)


def window(config: Config, kind: str) -> int | None:
    """Tokens that a layer of a kind sees, None where it sees all."""
    if kind == CHUNKED:
        return config.integer("attention_chunk_size")
    return config.integer("sliding_window", "sliding_window_size") if kind == SLIDING else None
