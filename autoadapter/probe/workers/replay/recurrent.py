"""Blocks with a state: Mamba-2, short convolutions, gated delta rule. Plain scans over the tokens."""

import torch
import torch.nn.functional as F
from torch import Tensor

from autoadapter.artifacts.decoder import GatedDeltaNet, Mamba2, ShortConv
from autoadapter.probe.workers.replay.norms import normed, scaled
from autoadapter.probe.workers.replay.scope import Scope, Setting


def mamba2(mixer: Mamba2, scope: Scope, x: Tensor, setting: Setting) -> Tensor:  # noqa: ARG001
    """The block of x [tokens, hidden] → [tokens, hidden]."""
    heads, groups = int(mixer.num_heads.number), int(mixer.n_groups.number)
    width, state = heads * int(mixer.head_dim.number), groups * int(mixer.state_size.number)
    sizes = [width, width, state, state, heads]
    segments = scope.linear("in_proj", scaled(x, mixer.in_scale), bias=mixer.proj_bias).split(sizes, dim=-1)
    if mixer.segment_scales:
        segments = tuple(map(scaled, segments, mixer.segment_scales))
    gate, *channels, step = segments
    mixed = F.silu(causal_conv(scope, "conv1d", torch.cat(channels, dim=-1), bias=mixer.conv_bias))
    values, inputs, outputs = mixed.split([width, state, state], dim=-1)
    step = F.softplus(step + scope["dt_bias"])
    if mixer.dt_limit is not None:
        step = step.clamp(*mixer.dt_limit)
    per_head = [
        part.unflatten(-1, (groups, -1)).repeat_interleave(heads // groups, dim=1) for part in (inputs, outputs)
    ]
    y = _scan(scope, values.unflatten(-1, (heads, -1)), step, *per_head).flatten(1)
    return scope.linear("out_proj", _gated_norm(mixer, scope.below("norm"), y, F.silu(gate)), bias=mixer.proj_bias)


def short_conv(mixer: ShortConv, scope: Scope, x: Tensor, setting: Setting) -> Tensor:  # noqa: ARG001
    """The block of x [tokens, hidden] → [tokens, hidden]."""
    inner, outer, values = scope.linear("in_proj", x, bias=mixer.bias).chunk(3, dim=-1)
    mixed = outer * causal_conv(scope, "conv", inner * values, bias=mixer.bias)
    return scope.linear("out_proj", mixed, bias=mixer.bias)


def gated_delta_net(mixer: GatedDeltaNet, scope: Scope, x: Tensor, setting: Setting) -> Tensor:  # noqa: ARG001
    """The block of x [tokens, hidden] → [tokens, hidden]."""
    k_heads, v_heads = int(mixer.num_k_heads.number), int(mixer.num_v_heads.number)
    mixed = F.silu(
        causal_conv(scope, "conv1d", _stacked(mixer, scope.linear("in_proj_qkv", x, bias=False)), bias=False)
    )
    keys_width = k_heads * int(mixer.head_k_dim.number)
    queries, keys, values = mixed.split([keys_width, keys_width, mixed.shape[-1] - 2 * keys_width], dim=-1)
    queries, keys = (
        _unit(part.unflatten(-1, (k_heads, -1))).repeat_interleave(v_heads // k_heads, dim=1)
        for part in (queries, keys)
    )
    beta = torch.sigmoid(scope.linear("in_proj_b", x, bias=False))
    step = F.softplus(scope.linear("in_proj_a", x, bias=False) + scope["dt_bias"])
    decay = torch.exp(-scope["A_log"].exp() * step)
    scale = int(mixer.head_k_dim.number) ** -0.5
    y = _delta_rule(queries * scale, keys, values.unflatten(-1, (v_heads, -1)), decay, beta)
    gate = F.silu(scope.linear("in_proj_z", x, bias=False)).view(y.shape)
    return scope.linear("out_proj", (normed(mixer.norm, scope.below("norm"), y) * gate).flatten(1), bias=False)


def causal_conv(scope: Scope, name: str, x: Tensor, *, bias: bool) -> Tensor:
    """Each channel of x [tokens, channels] convolved with what came before."""
    weight = scope[f"{name}.weight"]
    padded = F.pad(x.T[None], (weight.shape[-1] - 1, 0))
    return F.conv1d(padded, weight, scope[f"{name}.bias"] if bias else None, groups=len(weight))[0].T


def _scan(scope: Scope, values: Tensor, step: Tensor, inputs: Tensor, outputs: Tensor) -> Tensor:
    """The scan of values [tokens, heads, head_dim], step [tokens, heads], inputs and outputs [tokens, heads, state]."""
    state = torch.zeros(*values.shape[1:], inputs.shape[-1])
    decay = torch.exp(-scope["A_log"].exp() * step)[..., None, None]
    rows = []
    for token in range(len(values)):
        new = (step[token, :, None] * values[token])[..., None] * inputs[token][:, None]
        state = decay[token] * state + new
        rows.append(torch.einsum("hds,hs->hd", state, outputs[token]) + scope["D"][:, None] * values[token])
    return torch.stack(rows)


def _delta_rule(queries: Tensor, keys: Tensor, values: Tensor, decay: Tensor, beta: Tensor) -> Tensor:
    """The rule over queries and keys [tokens, heads, k], values [tokens, heads, v], decay and beta [tokens, heads]."""
    state = torch.zeros(keys.shape[1], keys.shape[2], values.shape[2])
    rows = []
    for token, key in enumerate(keys):
        state = state * decay[token][:, None, None]
        known = torch.einsum("hkv,hk->hv", state, key)
        change = (values[token] - known) * beta[token][:, None]
        state = state + key[..., None] * change[:, None]
        rows.append(torch.einsum("hkv,hk->hv", state, queries[token]))
    return torch.stack(rows)


def _stacked(mixer: GatedDeltaNet, projected: Tensor) -> Tensor:
    """[q | k | v] of all heads, from rows that lie per key head."""
    if mixer.layout == "stacked":
        return projected
    groups = projected.unflatten(-1, (int(mixer.num_k_heads.number), -1))
    width = int(mixer.head_k_dim.number)
    parts = groups.split([width, width, groups.shape[-1] - 2 * width], dim=-1)
    return torch.cat([part.flatten(1) for part in parts], dim=-1)


def _unit(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)


def _gated_norm(mixer: Mamba2, scope: Scope, y: Tensor, gate: Tensor) -> Tensor:
    if mixer.norm_before_gate:
        return normed(mixer.norm, scope, y) * gate
    return normed(mixer.norm, scope, y * gate)
