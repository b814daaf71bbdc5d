"""Attention: kind, heads, head size, windows, QK-norm, biases, sinks."""

from typing import Literal

from autoadapter.analyze import kv_cache
from autoadapter.analyze.layers import (
    CHUNKED,
    FULL,
    LAYERS,
    LISTS,
    PARALLEL,
    SLIDING,
    STATE,
    WORDS,
    LayerKinds,
    layer_count,
    layer_kinds,
)
from autoadapter.analyze.reading import Evidence, Reading
from autoadapter.artifacts import Finding, Level
from autoadapter.artifacts.model_profile import AttentionTraits

Kind = Literal["mha", "gqa", "mqa", "mla", "linear", "hybrid", "none"]
QK_NORM = r"(q_norm|q_layernorm|query_layernorm|attn_q_norm|q_ln)\.weight$"
QKV_BIAS = r"(q_proj|qkv_proj|query_key_value|c_attn|Wqkv|query|W_pack|attn_q|attn_qkv)\.bias$"
EVEN_HEADS_ONLY = {
    "arcee", "aria_text", "cwm", "deepseek_v2", "gemma2", "gemma3_text", "gemma3n_text", "gpt_neox", "hyperclovax",
    "jais2", "llama", "minicpm3", "vaultgemma",
}  # fmt: skip
"""Families whose config class checks `hidden_size % num_attention_heads`: transformers 5.19 `validate_architecture`."""
SINKS = r"(\.sinks$|attn_sinks\.weight$|attention_sink_bias)"


def read_attention(evidence: Evidence) -> Reading:
    """Attention traits. Config keys decide sizes; tensor names decide QK-norm, biases and sinks where they exist."""
    config = evidence.language
    num_layers = layer_count(config)
    kinds = layer_kinds(config, num_layers)
    sliding = sum(kind in (SLIDING, CHUNKED) for kind in kinds.kinds)
    attends = not kinds.kinds or any(kind in kv_cache.CACHED for kind in kinds.kinds)
    traits = AttentionTraits(
        kind=_kind(evidence, kinds),
        num_layers=num_layers,
        num_attention_heads=kv_cache.attention_heads(config) if attends else 0,
        num_key_value_heads=kv_cache.kv_heads(config) if attends else 0,
        head_dim=kv_cache.head_dim(config) if attends else 0,
        sliding_window=_window(evidence) if sliding else None,
        num_sliding_layers=sliding,
        kv_lora_rank=config.integer("kv_lora_rank"),
        qk_rope_head_dim=config.integer("qk_rope_head_dim") if config.found("kv_lora_rank") else None,
        qk_norm=_said_or_stored(evidence, QK_NORM, "use_qk_norm", "qk_layernorm", "qk_norm"),
        bias=_said_or_stored(evidence, QKV_BIAS, "attention_bias", "qkv_bias", "add_bias_linear"),
        sinks=_said_or_stored(evidence, SINKS, "add_swa_attention_sink_bias"),
        layer_types=kinds.kinds if len(set(kinds.kinds)) > 1 else (),
    )
    return Reading("attention", traits, _sources(evidence, kinds), _findings(evidence, traits, kinds))


def _kind(evidence: Evidence, kinds: LayerKinds) -> Kind:
    config, found = evidence.language, set(kinds.kinds)
    attends = found & {FULL, SLIDING, CHUNKED, PARALLEL}
    if STATE in found or PARALLEL in found:
        return "hybrid" if attends else "linear"
    if not attends:
        return "none"
    if kv_cache.latent_elements(config) is not None:
        return "mla"
    heads, kv_heads = kv_cache.attention_heads(config), kv_cache.kv_heads(config)
    return "mha" if kv_heads == heads else "mqa" if kv_heads == 1 else "gqa"


def _window(evidence: Evidence) -> int | None:
    return evidence.language.integer("sliding_window", "sliding_window_size", "attention_chunk_size")


def _said_or_stored(evidence: Evidence, pattern: str, *keys: str) -> bool:
    """Tensors are the truth where there are any; the config is believed when there are none."""
    if evidence.checkpoint.tensors:
        return evidence.checkpoint.has(pattern)
    return bool(evidence.language.flag(*keys))


def _sources(evidence: Evidence, kinds: LayerKinds) -> dict[str, str]:
    config = evidence.language
    from_tensors = "tensor names" if evidence.checkpoint.tensors else config.source("attention_bias")
    head_dim = config.source(*kv_cache.HEAD_DIM)
    if config.found("kv_lora_rank"):
        head_dim = f"{config.source('kv_lora_rank')} plus qk_rope_head_dim"
    elif config.found(*kv_cache.HEAD_DIM) is None:
        head_dim = f"{config.source(*kv_cache.HIDDEN)} over {config.source(*kv_cache.HEADS)}"
    return {
        "num_layers": config.source(*LAYERS, *LISTS),
        "num_attention_heads": config.source(*kv_cache.HEADS),
        "num_key_value_heads": config.source(*kv_cache.KV_HEADS, *kv_cache.HEADS),
        "head_dim": head_dim,
        "layer_types": kinds.source,
        "qk_norm": from_tensors,
        "bias": from_tensors,
    }


def _findings(evidence: Evidence, traits: AttentionTraits, kinds: LayerKinds) -> tuple[Finding, ...]:
    config = evidence.language
    checks = (
        _no_effect(evidence, traits),
        _uneven_heads(evidence, traits),
        _varying(evidence),
        _indexer(evidence),
        _compressed(evidence),
        _unknown_layers(kinds, config.texts("layer_types", "layers_block_type")),
    )
    return tuple(finding for finding in checks if finding is not None)


def _no_effect(evidence: Evidence, traits: AttentionTraits) -> Finding | None:
    config = evidence.language
    window = config.stated.integer("sliding_window")
    if not window or traits.num_sliding_layers or config.stated.flag("use_sliding_window") is False:
        return None
    message = f"sliding_window is {window}, and no layer slides: the window has no effect."
    return Finding(
        code="attention.window-unused", level=Level.INFO, message=message, source=config.source("sliding_window")
    )


def _uneven_heads(evidence: Evidence, traits: AttentionTraits) -> Finding | None:
    hidden, heads = evidence.language.integer(*kv_cache.HIDDEN) or 0, traits.num_attention_heads
    latent = evidence.language.found("kv_lora_rank")
    if not heads or hidden % heads == 0 or latent:
        return None
    explicit = evidence.language.found(*kv_cache.HEAD_DIM) is not None
    if explicit and evidence.model_type not in EVEN_HEADS_ONLY:
        return None
    why = "transformers 5.5 and newer refuse that for this family" if explicit else "no head_dim is stated"
    message = f"hidden_size {hidden} is not a multiple of {heads} heads, and {why}."
    level = Level.WARNING if explicit else Level.BLOCKER
    source = evidence.language.source(*kv_cache.HEADS)
    return Finding(code="attention.uneven-heads", level=level, message=message, source=source)


def _varying(evidence: Evidence) -> Finding | None:
    config = evidence.language
    keys = [key for key in (*kv_cache.KV_HEADS, "global_head_dim", "swa_head_dim") if _varies(evidence, key)]
    if not keys:
        return None
    message = f"Attention geometry differs by layer ({', '.join(keys)}); the KV cache is summed layer by layer."
    return Finding(code="attention.per-layer", level=Level.INFO, message=message, source=config.source(*keys))


def _varies(evidence: Evidence, key: str) -> bool:
    config = evidence.language
    listed = config.integers(key)
    return len(set(listed)) > 1 if listed else key.endswith("_head_dim") and config.integer(key) is not None


def _indexer(evidence: Evidence) -> Finding | None:
    width = evidence.language.integer("index_head_dim")
    if width is None:
        return None
    message = f"A sparse-attention indexer keeps its own keys (index_head_dim {width}); the KV figure counts them."
    return Finding(
        code="attention.indexer", level=Level.INFO, message=message, source=evidence.language.source("index_head_dim")
    )


def _compressed(evidence: Evidence) -> Finding | None:
    """DeepSeek-V4 keeps one entry for several tokens in some layers."""
    if evidence.language.found("compress_ratios") is None:
        return None
    message = "Some layers compress their KV cache (compress_ratios); the KV bytes shown are an upper bound."
    hint = "Plan the context by what vLLM prints at its start."
    source = evidence.language.source("compress_ratios")
    return Finding(code="attention.compressed", level=Level.WARNING, message=message, hint=hint, source=source)


def _unknown_layers(kinds: LayerKinds, names: tuple[str, ...] | None) -> Finding | None:
    unknown = sorted({name for name in names or () if name not in WORDS})
    if not unknown:
        return None
    message = f"Layer type {unknown[0]!r} is not known; it is counted as full attention."
    return Finding(code="attention.layer-type", level=Level.WARNING, message=message, source=kinds.source)
