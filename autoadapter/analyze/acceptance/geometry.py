"""Counts that no layer can be built with: KV heads that do not divide the heads, too many experts for a token."""

from collections.abc import Iterator

from autoadapter.analyze import experts, kv_cache
from autoadapter.analyze.config import Config
from autoadapter.analyze.reading import Evidence
from autoadapter.artifacts import Finding, Level
from autoadapter.artifacts.model_profile import AttentionTraits

BY_LAYER = ("block_configs", "attention_other_setting", "per_layer_config")
"""Keys of configs that state heads layer by layer."""


def geometry_findings(evidence: Evidence, attention: AttentionTraits) -> Iterator[Finding]:
    """What vLLM's layers refuse to be built with; encoder-decoders are left alone."""
    if not evidence.root.flag("is_encoder_decoder"):
        yield from _kv_heads(evidence.language, attention)
        yield from _experts(evidence.language)


def _kv_heads(config: Config, attention: AttentionTraits) -> Iterator[Finding]:
    """Source: vLLM 0.32 `layers/attention/attention.py`: num_heads % num_kv_heads."""
    heads, kv_heads = attention.num_attention_heads, attention.num_key_value_heads
    key, other = config.found(*kv_cache.KV_HEADS), config.found(*kv_cache.HEADS)
    listed = any(isinstance(config.get(one or ""), list) for one in (key, other)) or config.found(*BY_LAYER)
    if key is None or attention.kind == "mla" or config.found("kv_lora_rank") or listed or not kv_heads:
        return
    if heads % kv_heads == 0:
        return
    message = f"{config.source(key)} is {kv_heads} and {other} {heads}; vLLM's attention stops: "
    message += f"num_heads ({heads}) is not divisible by num_kv_heads ({kv_heads})."
    hint = "Mend the one that is wrong: each KV head serves a whole number of heads."
    source = config.source(key)
    yield Finding(code="attention.kv-heads-uneven", level=Level.BLOCKER, message=message, hint=hint, source=source)


def _experts(config: Config) -> Iterator[Finding]:
    count, key = experts.expert_count(config)
    used = config.integer(*experts.TOP_K)
    if used is None or count <= 1 or used <= count:
        return
    source = config.source(*experts.TOP_K)
    message = f"{source} is {used} and {key} {count}: a token cannot use more experts than there are, and vLLM's router"
    message += " stops or chooses some twice."
    hint = "Mend the one that is wrong, as the model's authors state it."
    yield Finding(code="moe.top-k-too-many", level=Level.BLOCKER, message=message, hint=hint, source=source)
