"""What lies before the first and after the last layer."""

import torch
from torch import Tensor

from autoadapter.artifacts.decoder import Embedding, Head, Positions
from autoadapter.probe.workers.replay.norms import activated, normed, scaled, softcapped
from autoadapter.probe.workers.replay.scope import Scope

SINUSOIDAL_BASE = 10000.0


def embedded(embedding: Embedding, scope: Scope, ids: Tensor) -> Tensor:
    """Token ids [tokens] → [tokens, hidden]."""
    x = scope["embed.weight"][ids]
    if embedding.scale is not None and embedding.scale_in_weight_dtype:
        x = x * torch.tensor(embedding.scale.number, dtype=x.dtype)
    else:
        x = scaled(x, embedding.scale)
    if embedding.width is not None:
        x = scope.linear("embed_proj", x, bias=False)
    if embedding.positions is not None:
        x = x + _positions(embedding.positions, scope, *x.shape)
    return normed(embedding.norm, scope.below("embed_norm"), x)


def headed(head: Head, scope: Scope, x: Tensor) -> Tensor:
    """Hidden states [tokens, hidden] after the final norm → logits [tokens, vocab]."""
    if head.transform is not None:
        x = scope.linear("head_dense", x, bias=head.transform.bias)
        x = activated(head.transform.activation, scope, x)
        x = normed(head.transform.norm, scope.below("head_norm"), x)
    if head.projected:
        x = scope.linear("head_proj", x, bias=False)
    logits = x @ scope["embed.weight" if head.tied else "head.weight"].T
    if head.bias:
        logits = logits + scope["head.bias"]
    return softcapped(scaled(logits, head.scale), head.softcap)


def _positions(positions: Positions, scope: Scope, tokens: int, hidden: int) -> Tensor:
    rows = torch.arange(tokens) + positions.offset
    if positions.kind == "learned":
        return scope["positions.weight"][rows]
    divisor = hidden // 2 - (1 if positions.frequencies == "fairseq" else 0)
    frequencies = SINUSOIDAL_BASE ** (-torch.arange(hidden // 2, dtype=torch.float32) / divisor)
    angle = rows[:, None] * frequencies
    if positions.order == "halves":
        return torch.cat([angle.sin(), angle.cos()], dim=-1)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
