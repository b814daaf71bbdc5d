"""Bytes of weights on one device, from the profile alone.

Checked against public vLLM 0.19 logs: Llama-3.1-8B bf16 14.957 GiB (log 14.99), fp8 8.457 (8.49), w4a16 5.309 (5.38);
Qwen3-30B-A3B 56.87 (56.88). Norms, router and rotary tables are counted as linear weights: below 0.1 %.
"""

from dataclasses import dataclass

from autoadapter.artifacts import ModelProfile, Scheme
from autoadapter.engine.schemes import scheme as scheme_row
from autoadapter.plan.census import Census, census
from autoadapter.plan.legality import VOCAB_PADDING, Layout

SCALE_BITS_PER_CHANNEL = 32
"""One scale a channel, at most fp32; compressed-tensors writes bf16 or fp32."""
SCALE_BITS_PER_GROUP = 16


@dataclass(frozen=True)
class WeightParts:
    """Bytes of the whole model, by how vLLM spreads them."""

    tables: int
    """Embedding and head, counted once when tied. They stay 16 bit under every scheme."""
    dense: int
    """Attention, dense and shared MLPs, norms: sharded by TP, repeated by every data-parallel rank."""
    kv_projections: int
    """Part of `dense`: K and V projections, repeated when TP exceeds the key/value heads."""
    experts: int
    """Routed experts: dealt out or sliced over TP × DP."""


def weight_parts(profile: ModelProfile, scheme: Scheme) -> WeightParts:
    """Weights by kind under a scheme."""
    element = 4 if profile.memory.served_dtype == "float32" else 2
    count = census(profile)
    whole = profile.memory.served_weight_bytes or _estimate(profile, count, element)
    tables = min(count.tables * element, whole)
    rest, linear = whole - tables, max(1, count.linear)
    kept = _share_kept(profile, scheme, element)
    experts = rest * count.experts / linear
    kv = rest * count.kv_projections / linear
    return WeightParts(tables, int((rest - experts) * kept), int(kv * kept), int(experts * kept))


def is_estimated(profile: ModelProfile) -> bool:
    """Whether the size comes from the configuration because no tensor headers were there to read."""
    return profile.memory.served_weight_bytes == 0


def _estimate(profile: ModelProfile, count: Census, element: int) -> int:
    quantization = profile.quantization
    bits = quantization.bits if quantization and quantization.method != "gguf" else None
    return count.tables * element + int(count.linear * (bits / 8 if bits else element))


def _share_kept(profile: ModelProfile, scheme: Scheme, element: int) -> float:
    """Bytes of a quantized linear weight over its bytes before."""
    bits = scheme_row(scheme.name).served_bits
    if bits is None:
        return 1.0
    group = scheme.options.get("group_size")
    scales = (
        SCALE_BITS_PER_GROUP / group
        if isinstance(group, int)
        else SCALE_BITS_PER_CHANNEL / profile.embedding.hidden_size
    )
    return (bits + scales) / (8 * element)


def weight_bytes(profile: ModelProfile, scheme: Scheme, layout: Layout) -> int:
    """Bytes of weights on the fullest device of a layout."""
    parts = weight_parts(profile, scheme)
    vocab = profile.embedding.vocab_size
    padded = -(-vocab // VOCAB_PADDING) * VOCAB_PADDING / vocab
    repeated = kv_share(profile, layout) - 1 / layout.tensor
    dense = parts.dense / layout.tensor + parts.kv_projections * max(0.0, repeated)
    experts = parts.experts / (layout.tensor * layout.data)
    layers = profile.attention.num_layers
    stage = -(-layers // layout.pipeline) / layers
    return int(parts.tables * padded / layout.tensor + (dense + experts) * stage)


def kv_share(profile: ModelProfile, layout: Layout) -> float:
    """Part of the model's key/value heads that one tensor-parallel rank holds; 1 under MLA, whose latent is not split.

    Source: vLLM 0.32 `config/model.py` `get_num_kv_heads`.
    """
    if profile.attention.kind == "mla":
        return 1.0
    heads = max(1, profile.attention.num_key_value_heads)
    return max(1, -(-heads // layout.tensor)) / heads
