"""Parameters by kind, counted from the configuration: shares of the checkpoint, and its size where headers are missing.

Norms, biases, low-rank query projections of MLA, towers of multimodal models and layers for speculation are not counted
apart: on plain text models the error is below 1.5 %, on the hybrids of tests/unit/plan/test_census.py below 5 %.
"""

from dataclasses import dataclass

from autoadapter.artifacts import ModelProfile

MLA_HEAD = 128
"""`qk_nope_head_dim` and `v_head_dim` of DeepSeek-V2, V3 and Kimi-K2; a profile's `head_dim` is the latent's 576."""
STATE_SQUARES = {"short_conv": 4}
OTHER_STATE_SQUARES = 6
"""Parameters of a recurrent layer in squares of the hidden size. A short convolution has three projections in and one
out; a Mamba-2 layer with `expand` 2 has four in and two out, and gated delta networks and KDA come near that."""
NO_ATTENTION = ("state", "none")


@dataclass(frozen=True)
class LayerCounts:
    """How many layers have what. A layer may have several: Jamba's have a mixer and an MLP, Nemotron-H's one thing."""

    attending: int
    recurrent: int
    token_wise: int
    """Layers with an MLP or experts."""


@dataclass(frozen=True)
class Census:
    """Parameters of a whole model."""

    tables: int
    """Embedding and head, once when tied."""
    dense: int
    """Attention, recurrent layers, dense and shared MLPs, routers."""
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
    layers = layer_counts(profile)
    dense_mlp, experts = _mlps(profile, layers.token_wise)
    kv_projections = _kv_projections(profile, layers.attending)
    dense = _attention(profile, layers.attending) + _recurrent(profile, layers.recurrent) + dense_mlp
    return Census(tables, dense, kv_projections, experts)


def layer_counts(profile: ModelProfile) -> LayerCounts:
    """Layers by what they hold.

    A profile's `none` is a layer that neither attends nor keeps a state. Beside recurrent layers it is Nemotron-H's
    block of an MLP or experts, and the others have none; without them attention was taken out and the MLP stayed.
    """
    attention, state, kinds = profile.attention, profile.state, profile.attention.layer_types
    bare = kinds.count("none")
    if kinds:
        attending = sum(kind not in NO_ATTENTION for kind in kinds)
    else:
        attending = 0 if attention.kind in ("linear", "none") else attention.num_layers
    token_wise = bare if bare and state is not None else attention.num_layers
    return LayerCounts(attending, state.num_layers if state else 0, token_wise)


def unreliable_estimate(profile: ModelProfile) -> str | None:
    """Why a size from this configuration is no more than a guess, or None."""
    if "block_configs" in profile.sources.get("attention.layer_types", ""):
        return "its layers differ in width, block by block"
    if profile.mlp is None and profile.moe is None and profile.state is None:
        return "the configuration does not state the width of its MLP, which is not counted"
    if profile.state is not None and profile.state.bytes_per_request is None:
        return "its recurrent layers are of an unknown kind"
    return None


def _is_latent(profile: ModelProfile) -> bool:
    """MLA, alone or beside recurrent layers (Kimi-Linear)."""
    attention = profile.attention
    return attention.kind == "mla" or (attention.kind == "hybrid" and attention.kv_lora_rank is not None)


def _attention(profile: ModelProfile, layers: int) -> int:
    attention, hidden = profile.attention, profile.embedding.hidden_size
    heads = attention.num_attention_heads * attention.head_dim
    if not _is_latent(profile):
        return layers * 2 * hidden * heads + _kv_projections(profile, layers)
    rank, rope = attention.kv_lora_rank or 0, attention.qk_rope_head_dim or 0
    values = attention.num_attention_heads * MLA_HEAD
    queries = values + attention.num_attention_heads * rope
    return layers * (hidden * (queries + rank + rope) + 2 * rank * values + values * hidden)


def _kv_projections(profile: ModelProfile, layers: int) -> int:
    attention = profile.attention
    if _is_latent(profile):
        return 0
    return layers * profile.embedding.hidden_size * 2 * attention.num_key_value_heads * attention.head_dim


def _recurrent(profile: ModelProfile, layers: int) -> int:
    kind = profile.state.kind if profile.state else ""
    return layers * STATE_SQUARES.get(kind, OTHER_STATE_SQUARES) * profile.embedding.hidden_size**2


def _mlps(profile: ModelProfile, layers: int) -> tuple[int, int]:
    """Dense (with shared experts, routers and projections to a latent) and routed."""
    mlp, moe, hidden = profile.mlp, profile.moe, profile.embedding.hidden_size
    matrices = 2 if mlp is not None and not mlp.gated else 3
    plain = hidden * mlp.intermediate_size * matrices if mlp else 0
    if moe is None:
        return layers * plain, 0
    sparse = max(0, layers - moe.num_dense_layers)
    width = matrices * moe.moe_intermediate_size
    latent = 2 * hidden * moe.latent_size if moe.latent_size else 0
    beside = moe.num_shared_experts * width * hidden + moe.num_experts * hidden + latent
    routed = sparse * moe.num_experts * width * (moe.latent_size or hidden)
    return moe.num_dense_layers * plain + sparse * beside, routed
