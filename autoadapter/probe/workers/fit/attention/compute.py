"""Attention blocks in plain torch, from the fitted values: what a fit is checked with."""

from typing import Any

import torch

from autoadapter.artifacts.decoder import Alibi, Attention, LatentAttention, Norm, OutputGate, Rope, Window
from autoadapter.probe.workers.fit.attention.rope import rotate
from autoadapter.probe.workers.fit.attention.scores import alibi_slopes

Parameters = dict[str, torch.Tensor]
GATES = {"sigmoid": torch.sigmoid, "softplus": torch.nn.functional.softplus, "silu": torch.nn.functional.silu}


def attention(spec: Attention, given: Parameters, x: torch.Tensor, config: Any) -> torch.Tensor:
    """[tokens, hidden] → [tokens, hidden]; `given` holds the parameters by their names in the spec."""
    heads, kv_heads = int(spec.num_heads.number), int(spec.num_kv_heads.number)
    q = _prepared(spec, given, _project(given, "q_proj", x), "q", heads, config)
    k = _prepared(spec, given, _project(given, "k_proj", x), "k", kv_heads, config)
    v = _split(_clipped(spec, _project(given, "v_proj", x)), kv_heads)
    if spec.v_norm:
        v = normed(spec.v_norm, v, given, "v_norm")
    if spec.value_scale:
        v = v * spec.value_scale.number
    if spec.key_scale:
        k = k * spec.key_scale.number
    k, v = (part.repeat_interleave(heads // kv_heads, 0) for part in (k, v))
    scores = q @ k.transpose(-1, -2) * spec.scale.number
    if spec.softcap:
        scores = spec.softcap.number * torch.tanh(scores / spec.softcap.number)
    if spec.alibi:
        scores = scores + _alibi(spec.alibi, heads, float(spec.scale.number), x.shape[0])
    mixed = _attend(scores, v, spec.window, given.get("sinks") if spec.sinks else None)
    return _finished(spec.gate, spec.sub_norm, given, mixed, x)


def latent_attention(spec: LatentAttention, given: Parameters, x: torch.Tensor, config: Any) -> torch.Tensor:
    """[tokens, hidden] → [tokens, hidden]; see `LatentAttention`."""
    heads, nope = int(spec.num_heads.number), int(spec.qk_nope_head_dim.number)
    if spec.q_lora_rank:
        low = _project(given, "q_a_proj", x)
        low = normed(spec.q_norm, low, given, "q_norm") if spec.q_norm else low
        q = _project(given, "q_b_proj", low * (spec.q_scale.number if spec.q_scale else 1.0))
    else:
        q = _project(given, "q_proj", x)
    low, shared = _project(given, "kv_a_proj", x).split(
        [int(spec.kv_lora_rank.number), int(spec.qk_rope_head_dim.number)], -1
    )
    low = normed(spec.kv_norm, low, given, "kv_norm") if spec.kv_norm else low
    pairs = _split(_project(given, "kv_b_proj", low * (spec.kv_scale.number if spec.kv_scale else 1.0)), heads)
    k = torch.cat([pairs[..., :nope], shared.expand(heads, -1, -1)], -1)
    q = _split(q, heads)
    if spec.rope:
        q, k = rotate(q, spec.rope, config), rotate(k, spec.rope, config)
    scores = q @ k.transpose(-1, -2) * spec.scale.number
    mixed = _attend(scores, pairs[..., nope:], spec.window, given.get("sinks") if spec.sinks else None)
    return _finished(spec.gate, None, given, mixed, x)


def normed(norm: Norm, x: torch.Tensor, given: Parameters, name: str) -> torch.Tensor:
    """The norm over x's last axis; a weight of [heads × dim] goes over x [heads, tokens, dim] head by head."""
    groups = int(norm.groups.number) if norm.groups else 1
    parts = x.unflatten(-1, (groups, -1)) if groups > 1 else x
    if norm.kind == "layer":
        parts = parts - parts.mean(-1, keepdim=True)
    power = parts.pow(2).sum(-1, keepdim=True) if norm.kind == "l2" else parts.pow(2).mean(-1, keepdim=True)
    result = (parts * torch.rsqrt(power + norm.eps.number)).reshape(x.shape)
    for part, add in (("weight", False), ("bias", True)):
        value = given.get(f"{name}.{part}")
        if value is not None:
            value = value.reshape(x.shape[0], 1, -1) if value.numel() > x.shape[-1] else value
            value = value + 1 if part == "weight" and norm.weight == "one_plus" else value
            result = result + value if add else result * value
    return result


def _prepared(
    spec: Attention, given: Parameters, x: torch.Tensor, letter: str, heads: int, config: Any
) -> torch.Tensor:
    """Clip, norm and rotation of queries or keys: [tokens, heads × dim] → [heads, tokens, dim]."""
    norm, x = (spec.q_norm if letter == "q" else spec.k_norm), _clipped(spec, x)
    full = spec.norm_width == "full"
    if norm and full and not spec.norm_after_rope:
        x = normed(norm, x, given, f"{letter}_norm")
    x = _split(x, heads)
    if norm and not full and not spec.norm_after_rope:
        x = normed(norm, x, given, f"{letter}_norm")
    if spec.rope:
        x = rotate(x, spec.rope, config)
    if norm and spec.norm_after_rope:
        x = _split(normed(norm, _joined(x), given, f"{letter}_norm"), heads) if full else x
        x = x if full else normed(norm, x, given, f"{letter}_norm")
    return x


def _project(given: Parameters, name: str, x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.linear(x, given[f"{name}.weight"], given.get(f"{name}.bias"))


def _clipped(spec: Attention, x: torch.Tensor) -> torch.Tensor:
    return x.clamp(-spec.clip.number, spec.clip.number) if spec.clip else x


def _split(x: torch.Tensor, heads: int) -> torch.Tensor:
    return x.unflatten(-1, (heads, -1)).transpose(0, 1)


def _joined(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(0, 1).flatten(1)


def _alibi(alibi: Alibi, heads: int, scale: float, tokens: int) -> torch.Tensor:
    slopes = alibi_slopes(alibi.slopes, heads, float(alibi.bias_max.number) if alibi.bias_max else 8.0).float()
    at = torch.arange(tokens)
    bias = slopes[:, None, None] * (at[None, :] - at[:, None])
    return bias * scale if alibi.scaled else bias


def visible(window: Window | None, tokens: int) -> torch.Tensor:
    """[tokens, tokens]: whether query i sees key j."""
    at = torch.arange(tokens)
    seen = at[:, None] >= at[None, :]
    if window and window.kind == "sliding":
        seen &= at[:, None] - at[None, :] < int(window.size.number)
    elif window:
        seen &= at[:, None] // int(window.size.number) == at[None, :] // int(window.size.number)
    return seen


def _attend(
    scores: torch.Tensor, v: torch.Tensor, window: Window | None, sinks: torch.Tensor | None
) -> torch.Tensor:
    """[heads, tokens, tokens] and [heads, tokens, dim] → [tokens, heads × dim]."""
    tokens = scores.shape[1]
    scores = scores.masked_fill(~visible(window, tokens), float("-inf"))
    if sinks is not None:
        scores = torch.cat([scores, sinks.reshape(-1, 1, 1).expand(-1, tokens, 1)], -1)
    return _joined(scores.softmax(-1)[..., :tokens] @ v)


def _finished(
    gate: OutputGate | None, sub_norm: Norm | None, given: Parameters, mixed: torch.Tensor, x: torch.Tensor
) -> torch.Tensor:
    if gate:
        factor = GATES[gate.activation](_project(given, "gate_proj", x)) * (gate.scale.number if gate.scale else 1.0)
        mixed = mixed * factor.repeat_interleave(mixed.shape[-1] // factor.shape[-1], -1)
    if sub_norm:
        mixed = normed(sub_norm, mixed, given, "sub_norm")
    return _project(given, "o_proj", mixed)
