"""How many rows each parameter of a spec has: what a fused tensor is cut by."""

import re
from collections.abc import Callable
from typing import Any

from autoadapter.artifacts.decoder import (
    Attention,
    GatedDeltaNet,
    LatentAttention,
    LayerKind,
    Mamba2,
    Mlp,
    Moe,
    OutputGate,
    Value,
)

OF_LAYER = re.compile(r"layers\.(?P<layer>\d+|\{layer\})\.(?P<branch>\d+)\.(?P<rest>.+)")
ENDS = (".weight", ".bias")


def rows(kind: LayerKind | None, target: str) -> int:
    """Rows of a layer's parameter, of one expert where it is an expert's.

    Args:
        kind: the layer's.
        target: `layers.3.0.q_proj.weight` or `layers.{layer}.0.q_proj.weight`.

    Raises:
        KeyError: nothing is known to be fused with it.
    """
    found = OF_LAYER.fullmatch(target)
    if found is None or kind is None:
        raise KeyError(target)
    mixer = kind.branches[int(found["branch"])].mixer
    name = found["rest"]
    for end in ENDS:
        name = name.removesuffix(end)
    return _SIZES[type(mixer)](mixer)[name]


def num_experts(kind: LayerKind | None, target: str) -> int:
    """How many experts hold the parameter."""
    found = OF_LAYER.fullmatch(target)
    mixer = kind.branches[int(found["branch"])].mixer if kind and found else None
    if not isinstance(mixer, Moe):
        raise KeyError(target)
    return int(mixer.num_experts.number)


def _attention(mixer: Attention) -> dict[str, int]:
    heads, kv_heads, width = _ints(mixer.num_heads, mixer.num_kv_heads, mixer.head_dim)
    v_width = int((mixer.v_head_dim or mixer.head_dim).number)
    sizes = {"q_proj": heads * width, "k_proj": kv_heads * width, "v_proj": kv_heads * v_width}
    sizes |= {"q_norm": heads * width, "k_norm": kv_heads * width} if mixer.norm_width != "head" else {}
    return sizes | _gate(mixer.gate, heads, v_width)


def _latent(mixer: LatentAttention) -> dict[str, int]:
    heads, rank, nope, rope, v_width = _ints(
        mixer.num_heads, mixer.kv_lora_rank, mixer.qk_nope_head_dim, mixer.qk_rope_head_dim, mixer.v_head_dim
    )
    query = {"q_proj": heads * (nope + rope), "q_b_proj": heads * (nope + rope)}
    low = {"kv_a_proj": rank + rope, "kv_b_proj": heads * (nope + v_width)}
    if mixer.q_lora_rank is not None:
        low["q_a_proj"] = int(mixer.q_lora_rank.number)
    return query | low | _gate(mixer.gate, heads, v_width)


def _gate(gate: OutputGate | None, heads: int, width: int) -> dict[str, int]:
    return {} if gate is None else {"gate_proj": heads * width if gate.width == "element" else heads}


def _mlp(mixer: Mlp) -> dict[str, int]:
    inner = int(mixer.intermediate_size.number)
    return {"gate_proj": inner, "up_proj": inner}


def _moe(mixer: Moe) -> dict[str, int]:
    sizes = {f"experts.{name}": size for name, size in _mlp(mixer.expert).items()}
    sizes |= {"router": int(mixer.num_experts.number), "shared.gate": 1}
    if mixer.shared is not None:
        sizes |= {f"shared.{name}": size for name, size in _mlp(mixer.shared.mlp).items()}
    return sizes


def _mamba2(mixer: Mamba2) -> dict[str, int]:
    heads, width, groups, state = _ints(mixer.num_heads, mixer.head_dim, mixer.n_groups, mixer.state_size)
    channels = heads * width + 2 * groups * state
    return {"in_proj": channels + heads * width + heads, "conv1d": channels}


def _delta_net(mixer: GatedDeltaNet) -> dict[str, int]:
    k_heads, v_heads, k_width, v_width = _ints(mixer.num_k_heads, mixer.num_v_heads, mixer.head_k_dim, mixer.head_v_dim)
    values = v_heads * v_width
    return {
        "in_proj_qkv": 2 * k_heads * k_width + values,
        "in_proj_z": values,
        "in_proj_b": v_heads,
        "in_proj_a": v_heads,
    }


def _ints(*values: Value) -> tuple[int, ...]:
    return tuple(int(value.number) for value in values)


_SIZES: dict[type, Callable[[Any], dict[str, int]]] = {
    Attention: _attention,
    LatentAttention: _latent,
    Mlp: _mlp,
    Moe: _moe,
    Mamba2: _mamba2,
    GatedDeltaNet: _delta_net,
}
