"""Operators of well-known layers, written out as `analyze` finds them, for profiles written by hand."""

from autoadapter.artifacts import ModelProfile
from autoadapter.artifacts.model_structure import LayerGroup, Operator, Split

ELEMENT = 2


def operator(
    name: str, inputs: int, outputs: int, split: Split = "split", *, copies: int = 1, active: int = 1
) -> Operator:
    """A matrix in bfloat16."""
    return Operator(
        name=name,
        inputs=inputs,
        outputs=outputs,
        split=split,
        copies=copies,
        active=active,
        weight_bytes=ELEMENT * inputs * outputs * copies,
        dtype="bfloat16",
    )


def attention_operators(profile: ModelProfile, head_dim: int = 128) -> list[Operator]:
    """Query, key, value and output projections of grouped-query attention."""
    hidden, attention = profile.embedding.hidden_size, profile.attention
    query, cache = attention.num_attention_heads * head_dim, attention.num_key_value_heads * head_dim
    return [
        operator("q_proj", hidden, query),
        operator("k_proj", hidden, cache, "kv"),
        operator("v_proj", hidden, cache, "kv"),
        operator("o_proj", query, hidden),
    ]


def latent_operators(hidden: int, heads: int, query_rank: int = 1536) -> list[Operator]:
    """MLA of DeepSeek-V3: latents of 1536 and 512, heads of 128 + 64 and 128."""
    return [
        operator("q_a_proj", hidden, query_rank, "replicated"),
        operator("q_b_proj", query_rank, heads * 192),
        operator("kv_a_proj_with_mqa", hidden, 576, "replicated"),
        operator("kv_b_proj", 512, heads * 256),
        operator("o_proj", heads * 128, hidden),
    ]


def mlp_operators(hidden: int, width: int, prefix: str = "") -> list[Operator]:
    """A gated MLP."""
    ups = [operator(f"{prefix}{name}", hidden, width) for name in ("gate_proj", "up_proj")]
    return [*ups, operator(f"{prefix}down_proj", width, hidden)]


def expert_operators(hidden: int, width: int, experts: int, active: int) -> list[Operator]:
    """Gated routed experts and their router."""
    shapes = [("gate_proj", hidden, width), ("up_proj", hidden, width), ("down_proj", width, hidden)]
    routed = [
        operator(f"experts.{name}", inputs, outputs, "experts", copies=experts, active=active)
        for name, inputs, outputs in shapes
    ]
    return [*routed, operator("gate", hidden, experts, "replicated")]


def with_operators(profile: ModelProfile, *groups: list[Operator]) -> ModelProfile:
    """The profile with the operators of each of its layer groups."""
    pairs = zip(profile.structure.groups, groups, strict=True)
    changed = tuple(_filled(group, operators) for group, operators in pairs)
    return profile.model_copy(update={"structure": profile.structure.model_copy(update={"groups": changed})})


def _filled(group: LayerGroup, operators: list[Operator]) -> LayerGroup:
    shares = {"split": 0, "kv": 0, "replicated": 0, "experts": 0}
    for entry in operators:
        shares[entry.split] += entry.weight_bytes
    weights = group.weights.model_copy(update=shares)
    return group.model_copy(update={"operators": tuple(operators), "weights": weights})
