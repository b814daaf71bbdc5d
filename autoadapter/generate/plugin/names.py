"""What the parts of a spec are called in rendered code, and where each parameter of the spec lives there."""

from dataclasses import dataclass
from typing import Literal

from autoadapter.artifacts.decoder import (
    Attention,
    Branch,
    DecoderSpec,
    LatentAttention,
    LayerKind,
    Mamba2,
    Mlp,
    Moe,
)

NormRole = Literal["input_norm", "output_norm", "post_norm"]
MIXERS = {
    "attention": "self_attn",
    "latent_attention": "self_attn",
    "mamba2": "mamba",
    "short_conv": "short_conv",
    "gated_delta_net": "linear_attn",
    "mlp": "mlp",
    "opaque": "mlp",
    "moe": "mlp",
}
TOKEN_WISE = ("mlp", "opaque", "moe")
TOP = {
    "embed": "model.embed_tokens",
    "embed_proj": "model.embed_proj",
    "positions": "model.embed_positions",
    "embed_norm": "model.embed_norm",
    "norm": "model.norm",
    "head": "lm_head",
    "head_dense": "head_dense",
    "head_norm": "head_norm",
    "head_proj": "head_proj",
}
IN_ATTENTION = {"sub_norm": "attn_sub_norm"}
IN_LATENT = {"kv_a_proj": "kv_a_proj_with_mqa", "q_norm": "q_a_layernorm", "kv_norm": "kv_a_layernorm"}
IN_MAMBA = {"A_log": "A"}
IN_MLP = {"activation": "act_fn"}
IN_MOE = {"router": "gate"}


@dataclass(frozen=True)
class Place:
    """Where a parameter of the spec is loaded to."""

    name: str
    """As checkpoints of the usual layout name it: `model.layers.{layer}.self_attn.q_proj.weight`."""
    fused: str | None = None
    """The parameter that holds it beside others: `model.layers.{layer}.self_attn.qkv_proj.weight`."""
    shard: str | int | None = None
    """Which part of `fused` it is."""


def mixer_name(kind: LayerKind, index: int) -> str:
    """The layer's attribute for the mixer of a branch: `self_attn`, `mlp`."""
    names = [_plain_name(kind, branch) for branch in kind.branches[: index + 1]]
    earlier = names[:-1].count(names[-1])
    return names[-1] + (f"_{earlier + 1}" if earlier else "")


def _plain_name(kind: LayerKind, branch: Branch) -> str:
    has_mlp = any(isinstance(other.mixer, Mlp) for other in kind.branches)
    return "moe" if isinstance(branch.mixer, Moe) and has_mlp else MIXERS[branch.mixer.mixer]


def norm_name(kind: LayerKind, index: int, role: NormRole) -> str:
    """The layer's attribute for a norm of a branch: `input_layernorm`, `post_attention_layernorm`."""
    branch = kind.branches[index]
    token_wise = branch.mixer.mixer in TOKEN_WISE
    usual = len(kind.branches) == 2 and [other.mixer.mixer in TOKEN_WISE for other in kind.branches] == [False, True]
    if not usual:
        before = {"input_norm": "pre", "output_norm": "post", "post_norm": "final"}[role]
        first = role == "input_norm" and index == 0
        return "input_layernorm" if first else f"{before}_{mixer_name(kind, index)}_layernorm"
    if role == "input_norm":
        return _input_norm_name(kind, index)
    block = "feedforward" if token_wise else "attention"
    both = branch.output_norm and branch.post_norm and role == "post_norm"
    return f"final_{block}_layernorm" if both else f"post_{block}_layernorm"


def _input_norm_name(kind: LayerKind, index: int) -> str:
    first = kind.branches[0]
    if index == 0:
        return "input_layernorm"
    return "pre_feedforward_layernorm" if first.output_norm or first.post_norm else "post_attention_layernorm"


def place(spec: DecoderSpec, target: str, kind: int = 0) -> Place:
    """Where the spec's parameter `target` lives in layers of a kind.

    Args:
        spec: the decoder.
        target: a spec name: `embed.weight`, `layers.{layer}.0.q_proj.weight`.
        kind: index of the layer's kind; of no matter for what is not of a layer.
    """
    first, *rest = target.split(".")
    if first != "layers":
        return Place(".".join((TOP[first], *rest)))
    _, index, *inner = rest
    layer_kind = spec.kinds[kind]
    return _in_layer(layer_kind, int(index), inner)


def _in_layer(kind: LayerKind, index: int, inner: list[str]) -> Place:
    layer = "model.layers.{layer}"
    first, *rest = inner
    if first in ("input_norm", "output_norm", "post_norm"):
        return Place(".".join((layer, norm_name(kind, index, first), *rest)))  # type: ignore[arg-type]
    prefix = f"{layer}.{mixer_name(kind, index)}"
    return _in_mixer(kind.branches[index].mixer, prefix, inner)


def _in_mixer(mixer: object, prefix: str, inner: list[str]) -> Place:
    first, *rest = inner
    if isinstance(mixer, Attention):
        fused = {"q_proj": "q", "k_proj": "k", "v_proj": "v"}
        return _joined(prefix, [IN_ATTENTION.get(first, first), *rest], "qkv_proj", fused.get(first))
    if isinstance(mixer, LatentAttention):
        return _in_latent(mixer, prefix, [IN_LATENT.get(first, first), *rest])
    if isinstance(mixer, Mlp):
        shards = {"gate_proj": 0, "up_proj": 1} if mixer.gated else {}
        return _joined(prefix, [IN_MLP.get(first, first), *rest], "gate_up_proj", shards.get(first))
    if isinstance(mixer, Moe):
        return _in_moe(mixer, prefix, inner)
    if isinstance(mixer, Mamba2):
        return Place(".".join((prefix, IN_MAMBA.get(first, first), *rest)))
    return Place(".".join((prefix, *inner)))


def _in_latent(mixer: LatentAttention, prefix: str, inner: list[str]) -> Place:
    shards = {"q_a_proj": 0, "kv_a_proj_with_mqa": 1} if mixer.q_lora_rank is not None else {}
    return _joined(prefix, inner, "fused_qkv_a_proj", shards.get(inner[0]))


def _in_moe(mixer: Moe, prefix: str, inner: list[str]) -> Place:
    first, *rest = inner
    if first == "router" and rest == ["correction"]:
        return Place(f"{prefix}.gate.e_score_correction_bias")
    if first == "router" and rest[0] == "input_norm":
        return Place(".".join((prefix, "router_norm", *rest[1:])))
    if first == "experts":
        return Place(".".join((prefix, "experts.{expert}", *rest)))
    if first == "shared" and rest[0] == "gate":
        return Place(".".join((prefix, "shared_experts", *rest)))
    if first == "shared" and mixer.shared is not None:
        return _in_mixer(mixer.shared.mlp, f"{prefix}.shared_experts", rest)
    return Place(".".join((prefix, IN_MOE.get(first, first), *rest)))


def _joined(prefix: str, inner: list[str], fused: str, shard: str | int | None) -> Place:
    name = ".".join((prefix, *inner))
    if shard is None:
        return Place(name)
    return Place(name, ".".join((prefix, fused, *inner[1:])), shard)
