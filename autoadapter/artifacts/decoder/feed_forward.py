"""What treats each token alone: MLPs, mixtures of experts, blocks carried over as they are.

Parameter names in the docstrings are relative to the mixer and are in transformers' orientation [outputs, inputs].
"""

from typing import Literal

from autoadapter.artifacts.base import Frozen
from autoadapter.artifacts.decoder.parts import Activation, Norm
from autoadapter.artifacts.decoder.values import Value


class Mlp(Frozen):
    """y = `down_proj`(inner_norm(act(gate_scale · `gate_proj` x) · `up_proj` x)) · down_scale.

    Ungated: act(`up_proj` x) takes the place of the product.
    Parameters: `gate_proj`, `up_proj`, `down_proj` (`.weight`, `.bias`), `inner_norm` (see `Norm`), and under `xielu`
    `activation.alpha_p`, `activation.alpha_n` (one element each).
    """

    mixer: Literal["mlp"] = "mlp"
    intermediate_size: Value
    gated: bool
    activation: Activation
    up_bias: bool = False
    """Of `up_proj`, and of `gate_proj` where there is one."""
    down_bias: bool = False
    inner_norm: Norm | None = None
    gate_scale: Value | None = None
    down_scale: Value | None = None
    gate_limit: Value | None = None
    """The gate's input is clamped from above, the up branch to ± this (gpt-oss `swiglu_limit`)."""


class Router(Frozen):
    """How experts are chosen and weighed.

    Parameters: `router.weight` [experts, hidden], `router.bias`, `router.correction` [experts] (added to the scores for
    choosing only).
    logits = `router` x; scores = score(logits) (`softmax_topk`: softmax over the chosen logits alone); choose top_k of
    scores + correction, inside the best `topk_group` of `n_group` groups where grouped; weights = the chosen scores,
    divided by their sum under `renormalize`, times `scaling`.
    """

    score: Literal["softmax", "sigmoid", "softmax_topk", "sqrt_softplus", "sparsemixer"]
    top_k: Value
    renormalize: bool = False
    scaling: Value | None = None
    bias: bool = False
    correction: bool = False
    n_group: Value | None = None
    topk_group: Value | None = None
    group_score: Literal["max", "top2_sum"] = "max"
    input_norm: Norm | None = None
    softcap: Value | None = None
    """On the router's logits."""
    jitter: Value | None = None
    """Of `sparsemixer` (PhiMoE): one expert after the other, the best of those left is chosen; its weight is its share
    in the softmax over those left whose logit l has (best - l) / max(|l|, best) ≤ 2 · jitter."""


class SharedExperts(Frozen):
    """Experts that every token uses, as one MLP beside the routed ones.

    Parameters: those of the MLP below `shared`, and `shared.gate.weight` [1, hidden] under `gated`.
    """

    mlp: Mlp
    gated: bool = False
    """Their output is multiplied by sigmoid(`shared.gate` x) (Qwen2-MoE)."""


class Moe(Frozen):
    """Routed experts: Σ weight(e) · expert(e)(x), plus the shared ones.

    Parameters: the router's; `experts.gate_proj.weight` and `experts.up_proj.weight` [experts, intermediate, hidden],
    `experts.down_proj.weight` [experts, hidden, intermediate], their `.bias` [experts, …]; and those of `shared`.
    """

    mixer: Literal["moe"] = "moe"
    num_experts: Value
    router: Router
    expert: Mlp
    """One routed expert; `intermediate_size` is its own."""
    activation_kind: Literal["plain", "swigluoai"] = "plain"
    """`swigluoai`: (up + 1) · gate · sigmoid(1.702 · gate), clamped by `gate_limit` (gpt-oss)."""
    weight_on_input: bool = False
    """The routing weight multiplies the expert's input, not its output (Llama 4)."""
    shared: SharedExperts | None = None
    output_scale: Value | None = None


class Opaque(Frozen):
    """A token-wise block that no candidate explains: carried over as the reference has it, not sharded.

    Parameters keep the names that they have below the reference's module.
    """

    mixer: Literal["opaque"] = "opaque"
    module: str
    """Path of the module in the reference: `model.layers.0.mlp`."""
    class_name: str
