"""What is added to attention scores: masks, linear biases, sinks."""

import math

import torch
from torch import Tensor

from autoadapter.artifacts.decoder import Alibi, Window


def visible(tokens: int, window: Window | None, causal_offset: int = 0) -> Tensor:
    """[tokens, tokens], True where query i sees key j."""
    query, key = torch.arange(tokens)[:, None], torch.arange(tokens)[None]
    seen = key <= query - causal_offset
    if window is None:
        return seen
    size = int(window.size.number)
    if window.kind == "sliding":
        return seen & (query - key < size)
    return seen & (query // size == key // size)


def alibi_bias(alibi: Alibi | None, heads: int, tokens: int, scale: float) -> Tensor:
    """[heads, tokens, tokens] to add to the scaled scores; zeros without linear biases."""
    if alibi is None:
        return torch.zeros(1, tokens, tokens)
    position = torch.arange(tokens, dtype=torch.float32)
    bias = alibi_slopes(alibi, heads)[:, None, None] * (position[None, :] - position[:, None])
    return bias * scale if alibi.scaled else bias


def alibi_slopes(alibi: Alibi, heads: int) -> Tensor:
    """[heads]."""
    if alibi.slopes == "mpt":
        count = 2 ** math.ceil(math.log2(heads))
        largest = 8.0 if alibi.bias_max is None else alibi.bias_max.number
        slopes = 2.0 ** (-torch.arange(1, count + 1) * largest / count)
        return slopes if count == heads else torch.cat([slopes[1::2], slopes[::2]])[:heads]
    count = 2 ** math.floor(math.log2(heads))
    slopes = 2.0 ** (-torch.arange(1, count + 1) * 8.0 / count)
    between = 2.0 ** (-torch.arange(1, 2 * count, 2) * 4.0 / count)
    return torch.cat([slopes, between])[:heads]


def attended(scores: Tensor, seen: Tensor, values: Tensor, sinks: Tensor | None) -> Tensor:
    """Softmax over what is seen.

    Args:
        scores: [heads, tokens, tokens].
        seen: [tokens, tokens].
        values: [tokens, heads, v_head_dim].
        sinks: [heads], a logit that takes its share and brings no value.

    Returns:
        [tokens, heads, v_head_dim]
    """
    scores = scores.masked_fill(~seen, float("-inf"))
    if sinks is not None:
        column = sinks[:, None, None].expand(-1, scores.shape[1], 1)
        scores = torch.cat([scores, column], dim=-1)
    weights = scores.softmax(-1)[..., : seen.shape[1]]
    return torch.einsum("hqk,khd->qhd", weights, values)
