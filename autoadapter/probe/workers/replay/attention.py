"""Softmax attention over full keys and values."""

import torch
import torch.nn.functional as F
from torch import Tensor

from autoadapter.artifacts.decoder import Attention, Norm, OutputGate
from autoadapter.probe.workers.replay.norms import normed, scaled, softcapped
from autoadapter.probe.workers.replay.rope import rotated
from autoadapter.probe.workers.replay.scope import Scope, Setting
from autoadapter.probe.workers.replay.scores import alibi_bias, attended, visible

GATES = {"sigmoid": torch.sigmoid, "softplus": F.softplus, "silu": F.silu}


def attention(mixer: Attention, scope: Scope, x: Tensor, setting: Setting) -> Tensor:
    """The block of x [tokens, hidden] → [tokens, hidden]."""
    heads, kv_heads = int(mixer.num_heads.number), int(mixer.num_kv_heads.number)
    queries = _rotated(mixer, mixer.q_norm, scope.below("q_norm"), _heads(mixer, scope, "q", x), setting)
    keys = _rotated(mixer, mixer.k_norm, scope.below("k_norm"), _heads(mixer, scope, "k", x), setting)
    values = _head_norm(mixer, mixer.v_norm, scope.below("v_norm"), _heads(mixer, scope, "v", x))
    keys = scaled(keys, mixer.key_scale).repeat_interleave(heads // kv_heads, dim=1)
    values = scaled(values, mixer.value_scale).repeat_interleave(heads // kv_heads, dim=1)
    scores = torch.einsum("qhd,khd->hqk", queries, keys) * mixer.scale.number
    scores = softcapped(scores, mixer.softcap) + alibi_bias(mixer.alibi, heads, len(x), mixer.scale.number)
    seen = visible(len(x), mixer.window, mixer.causal_offset)
    mixed = attended(scores, seen, values, scope["sinks"] if mixer.sinks else None)
    mixed = gated(mixer.gate, scope, x, mixed).flatten(1)
    return scope.linear("o_proj", normed(mixer.sub_norm, scope.below("sub_norm"), mixed), bias=mixer.o_bias)


def gated(gate: OutputGate | None, scope: Scope, x: Tensor, mixed: Tensor) -> Tensor:
    """Heads' outputs [tokens, heads, width] times the gate of the mixer's input x [tokens, hidden]."""
    if gate is None:
        return mixed
    openness = scaled(GATES[gate.activation](scope.linear("gate_proj", x, bias=gate.bias)), gate.scale)
    return mixed * openness.view(len(x), mixed.shape[1], -1)


def _heads(mixer: Attention, scope: Scope, part: str, x: Tensor) -> Tensor:
    bias = {"q": mixer.q_bias, "k": mixer.k_bias, "v": mixer.v_bias}[part]
    projected = scope.linear(f"{part}_proj", x, bias=bias)
    if mixer.clip is not None:
        projected = projected.clamp(-mixer.clip.number, mixer.clip.number)
    heads = mixer.num_heads if part == "q" else mixer.num_kv_heads
    return projected.view(len(x), int(heads.number), -1)


def _rotated(mixer: Attention, norm: Norm | None, scope: Scope, x: Tensor, setting: Setting) -> Tensor:
    if mixer.norm_after_rope:
        return _head_norm(mixer, norm, scope, rotated(mixer.rope, setting.config, x))
    return rotated(mixer.rope, setting.config, _head_norm(mixer, norm, scope, x))


def _head_norm(mixer: Attention, norm: Norm | None, scope: Scope, x: Tensor) -> Tensor:
    """Each head of x [tokens, heads, head_dim] normalised."""
    if norm is None:
        return x
    if mixer.norm_width == "full":
        return normed(norm, scope, x.flatten(1)).view(x.shape)
    if mixer.norm_width == "head":
        return normed(norm, scope, x)
    own = {name: tensor.view(x.shape[1:]) for name, tensor in scope.inside().items()}
    return normed(norm, Scope(own), x)
