"""Multi-head latent attention, expanded."""

import torch
from torch import Tensor

from autoadapter.artifacts.decoder import LatentAttention
from autoadapter.probe.workers.replay.attention import gated
from autoadapter.probe.workers.replay.norms import normed, scaled
from autoadapter.probe.workers.replay.rope import rotated
from autoadapter.probe.workers.replay.scope import Scope, Setting
from autoadapter.probe.workers.replay.scores import attended, visible


def latent_attention(mixer: LatentAttention, scope: Scope, x: Tensor, setting: Setting) -> Tensor:
    """The block of x [tokens, hidden] → [tokens, hidden]."""
    queries, (keys, values) = _queries(mixer, scope, x, setting), _keys_and_values(mixer, scope, x, setting)
    scores = torch.einsum("qhd,khd->hqk", queries, keys) * mixer.scale.number
    mixed = attended(scores, visible(len(x), mixer.window), values, scope["sinks"] if mixer.sinks else None)
    return scope.linear("o_proj", gated(mixer.gate, scope, x, mixed).flatten(1), bias=mixer.o_bias)


def _queries(mixer: LatentAttention, scope: Scope, x: Tensor, setting: Setting) -> Tensor:
    if mixer.q_lora_rank is None:
        flat = scope.linear("q_proj", x, bias=False)
    else:
        latent = normed(mixer.q_norm, scope.below("q_norm"), scope.linear("q_a_proj", x, bias=mixer.q_a_bias))
        flat = scope.linear("q_b_proj", scaled(latent, mixer.q_scale), bias=False)
    nope = int(mixer.qk_nope_head_dim.number)
    heads = flat.view(len(x), int(mixer.num_heads.number), -1)
    return torch.cat([heads[..., :nope], rotated(mixer.rope, setting.config, heads[..., nope:])], dim=-1)


def _keys_and_values(mixer: LatentAttention, scope: Scope, x: Tensor, setting: Setting) -> tuple[Tensor, Tensor]:
    rank, count = int(mixer.kv_lora_rank.number), int(mixer.num_heads.number)
    compressed = scope.linear("kv_a_proj", x, bias=mixer.kv_a_bias)
    latent = scaled(normed(mixer.kv_norm, scope.below("kv_norm"), compressed[:, :rank]), mixer.kv_scale)
    heads = scope.linear("kv_b_proj", latent, bias=False).view(len(x), count, -1)
    nope = int(mixer.qk_nope_head_dim.number)
    shared = rotated(mixer.rope, setting.config, compressed[:, None, rank:]).expand(-1, count, -1)
    return torch.cat([heads[..., :nope], shared], dim=-1), heads[..., nope:]
