"""Parameters by kind, counted from the configuration: shares of the checkpoint, and its size where headers are missing.

Norms, biases and low-rank query projections of MLA are not counted apart: the error is below 1.5 % on the models in
tests/unit/plan/test_memory.py.
"""

from dataclasses import dataclass

from autoadapter.artifacts import ModelProfile

MATRICES_OF_AN_EXPERT = 3  # gate, up, down
MLA_HEAD = 128
"""`qk_nope_head_dim` and `v_head_dim` of DeepSeek-V2, V3 and Kimi-K2; a profile's `head_dim` is the latent's 576."""


@dataclass(frozen=True)
class Census:
    """Parameters of a whole model."""

    tables: int
    """Embedding and head, once when tied."""
    dense: int
    """Attention, dense and shared MLPs, routers."""
    kv_projections: int
    """Part of `dense`."""
    experts: int
    """Routed experts."""

    @property
    def linear(self) -> int:
        """Everything but the tables."""
        return self.dense + self.experts


def census(profile: ModelProfile) -> Census:
    """Count from the traits."""
    embedding = profile.embedding
    tables = embedding.vocab_size * embedding.hidden_size * (1 if embedding.tied else 2)
    dense_mlp, experts = _mlps(profile)
    return Census(tables, _attention(profile) + dense_mlp, _kv_projections(profile), experts)


def _attention(profile: ModelProfile) -> int:
    attention, hidden = profile.attention, profile.embedding.hidden_size
    heads = attention.num_attention_heads * attention.head_dim
    if attention.kind != "mla":
        return attention.num_layers * 2 * hidden * heads + _kv_projections(profile)
    rank, rope = attention.kv_lora_rank or 0, attention.qk_rope_head_dim or 0
    values = attention.num_attention_heads * MLA_HEAD
    queries = values + attention.num_attention_heads * rope
    return attention.num_layers * (hidden * (queries + rank + rope) + 2 * rank * values + values * hidden)


def _kv_projections(profile: ModelProfile) -> int:
    attention = profile.attention
    if attention.kind == "mla":
        return 0
    width = 2 * attention.num_key_value_heads * attention.head_dim
    return attention.num_layers * profile.embedding.hidden_size * width


def _mlps(profile: ModelProfile) -> tuple[int, int]:
    """Dense (with shared experts and routers) and routed."""
    mlp, moe, hidden = profile.mlp, profile.moe, profile.embedding.hidden_size
    layers = profile.attention.num_layers
    plain = hidden * mlp.intermediate_size * (3 if mlp.gated else 2) if mlp else 0
    if moe is None:
        return layers * plain, 0
    sparse = layers - moe.num_dense_layers
    one = MATRICES_OF_AN_EXPERT * hidden * moe.moe_intermediate_size
    beside = moe.num_shared_experts * one + moe.num_experts * hidden
    return moe.num_dense_layers * plain + sparse * beside, sparse * moe.num_experts * one
