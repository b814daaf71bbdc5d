"""What mixes tokens: softmax attention with its variants, latent attention, recurrent blocks.

Parameter names in the docstrings are relative to the mixer and are in transformers' orientation [outputs, inputs].
"""

from typing import Literal

from autoadapter.artifacts.base import Frozen
from autoadapter.artifacts.decoder.parts import Alibi, Norm, Rope, Window
from autoadapter.artifacts.decoder.values import Value


class OutputGate(Frozen):
    """The attention output is multiplied by an activation of a projection of the mixer's input, before `o_proj`.

    Parameters: `gate_proj.weight` [heads × head_dim, hidden] (`element`) or [heads, hidden] (`head`), `gate_proj.bias`.
    """

    activation: Literal["sigmoid", "softplus", "silu"] = "sigmoid"
    width: Literal["element", "head"] = "element"
    bias: bool = False
    scale: Value | None = None
    """Multiplies the activated gate."""


class Attention(Frozen):
    """Softmax attention over cached keys and values.

    Order: project, clip, norm (unless `norm_after_rope`), rotate, scale keys, attend, gate, `sub_norm`, `o_proj`.

    Parameters: `q_proj`, `k_proj`, `v_proj`, `o_proj` (`.weight`, `.bias`), `q_norm`, `k_norm`, `v_norm`, `sub_norm`
    (see `Norm`), `sinks` [heads], and those of `gate`. Grouped queries: query head h uses key head
    h // (heads / kv_heads).
    """

    mixer: Literal["attention"] = "attention"
    num_heads: Value
    num_kv_heads: Value
    head_dim: Value
    v_head_dim: Value | None = None
    """Only where it differs from `head_dim`."""
    q_bias: bool = False
    k_bias: bool = False
    v_bias: bool = False
    o_bias: bool = False
    clip: Value | None = None
    """Projected queries, keys and values are clamped to ± this."""
    q_norm: Norm | None = None
    k_norm: Norm | None = None
    v_norm: Norm | None = None
    norm_width: Literal["head", "full", "per_head_weight"] = "head"
    """`head`: over head_dim, one weight for all heads; `full`: over heads × head_dim; `per_head_weight`: over head_dim,
    a weight of heads × head_dim."""
    norm_after_rope: bool = False
    rope: Rope | None = None
    key_scale: Value | None = None
    value_scale: Value | None = None
    """Multiplies the projected values (MiMo-V2)."""
    scale: Value
    """Multiplies q·k."""
    softcap: Value | None = None
    """scores = cap · tanh(scores / cap)."""
    window: Window | None = None
    alibi: Alibi | None = None
    sinks: bool = False
    """A learned logit per head joins the softmax and is dropped after it (gpt-oss)."""
    gate: OutputGate | None = None
    sub_norm: Norm | None = None
    """Over heads × head_dim (BitNet `attn_sub_norm`)."""
    causal_offset: int = 0
    """0: a query sees itself."""


class LatentAttention(Frozen):
    """Multi-head latent attention (DeepSeek-V2), computed expanded.

    q = `q_b_proj`(q_norm(`q_a_proj` x)), or `q_proj` x without `q_lora_rank`; [c, k_rope] = `kv_a_proj` x;
    [k_nope, v] per head = `kv_b_proj`(kv_norm c); the rope part of keys is shared by all heads and is the trailing
    part of q and k. Parameters: those projections (`.weight`, `.bias`), `q_norm`, `kv_norm`, `o_proj`, and `gate`'s.
    """

    mixer: Literal["latent_attention"] = "latent_attention"
    num_heads: Value
    q_lora_rank: Value | None
    kv_lora_rank: Value
    qk_nope_head_dim: Value
    qk_rope_head_dim: Value
    v_head_dim: Value
    q_norm: Norm | None
    kv_norm: Norm | None
    q_a_bias: bool = False
    kv_a_bias: bool = False
    o_bias: bool = False
    q_scale: Value | None = None
    """Multiplies the normed query latent (LongCat `mla_scale_q_lora`)."""
    kv_scale: Value | None = None
    """Multiplies the normed key/value latent."""
    rope: Rope | None
    scale: Value
    window: Window | None = None
    sinks: bool = False
    gate: OutputGate | None = None


class Mamba2(Frozen):
    """A Mamba-2 (SSD) block.

    `in_proj` → [gate z, x, B, C, dt], causal conv over [x, B, C], scan, gated norm, `out_proj`.
    Parameters: `in_proj`, `conv1d` (`.weight` [channels, 1, kernel], `.bias`), `A_log` [heads], `D` [heads],
    `dt_bias` [heads], `norm.weight`, `out_proj`.
    """

    mixer: Literal["mamba2"] = "mamba2"
    num_heads: Value
    head_dim: Value
    n_groups: Value
    state_size: Value
    conv_kernel: Value
    activation: Literal["silu"] = "silu"
    conv_bias: bool = True
    proj_bias: bool = False
    norm: Norm | None = None
    norm_before_gate: bool = False
    """True: norm(y) · silu(z); False: norm(y · silu(z))."""
    dt_limit: tuple[float, float] | None = None
    in_scale: Value | None = None
    segment_scales: tuple[Value, ...] = ()
    """Multipliers on the segments z, x, B, C, dt of the projection (Falcon-H1 `ssm_multipliers`)."""


class ShortConv(Frozen):
    """LFM2's gated short convolution: [B, C, x] = `in_proj` h; y = `out_proj`(C · conv(B · x)).

    Parameters: `in_proj`, `conv` (`.weight` [channels, 1, kernel], `.bias`), `out_proj`.
    """

    mixer: Literal["short_conv"] = "short_conv"
    kernel: Value
    bias: bool = False


class GatedDeltaNet(Frozen):
    """Gated delta rule (Qwen3-Next): conv over [q, k, v], L2-normed q and k, decay from `A_log` and `dt_bias`.

    Parameters: `in_proj_qkv`, `in_proj_z`, `in_proj_b`, `in_proj_a`, `conv1d`, `A_log`, `dt_bias`, `norm.weight`,
    `out_proj`.
    """

    mixer: Literal["gated_delta_net"] = "gated_delta_net"
    num_k_heads: Value
    num_v_heads: Value
    head_k_dim: Value
    head_v_dim: Value
    conv_kernel: Value
    norm: Norm
    activation: Literal["silu"] = "silu"
    layout: Literal["per_k_head", "stacked"] = "stacked"
