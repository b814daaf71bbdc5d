"""Attention modules alone, written in several manners; names that say nothing."""

import math
from typing import Any

import torch
from blocks_alone import HIDDEN
from torch import Tensor, nn

HEADS, PAIRS, DIM = 4, 2, 12
"""Query heads, key heads, and the width of a head."""
ATTENTION_CONFIG = {"num_attention_heads": HEADS, "num_key_value_heads": PAIRS, "head_dim": DIM, "rope_theta": 500.0}


def turned(x: Tensor, *, interleaved: bool = False, width: int = DIM, theta: float = 500.0) -> Tensor:
    """[heads, tokens, dim] rotated by position."""
    angle = torch.arange(x.shape[1])[:, None] / theta ** (torch.arange(0, width, 2) / width)
    part, rest = x[..., :width], x[..., width:]
    if interleaved:
        a, b = part[..., ::2], part[..., 1::2]
        pairs = torch.stack([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)
        return torch.cat([pairs.flatten(-2), rest], -1)
    a, b = part.chunk(2, -1)
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos(), rest], -1)


def rms(x: Tensor, weight: Tensor) -> Tensor:
    """Over the last axis."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight


class Separate(nn.Module):
    """Three products; what the options say between them and the scores."""

    def __init__(self, **options: Any) -> None:
        """`rope`: arguments of `turned`; `norm`; `window`; `cap`; `scale`; `gate`; `sinks`; `clip`; `repeat`."""
        super().__init__()
        self.o, self.b = options, nn.Linear(HIDDEN, PAIRS * DIM, bias=options.get("bias", False))
        self.c = nn.Linear(HIDDEN, PAIRS * DIM, bias=False)
        self.a, self.d = nn.Linear(HIDDEN, HEADS * DIM), nn.Linear(HEADS * DIM, HIDDEN, bias=False)
        self.e, self.f = nn.Parameter(torch.empty(DIM)), nn.Parameter(torch.empty(DIM))
        self.g, self.h = nn.Linear(HIDDEN, HEADS), nn.Parameter(torch.empty(HEADS))

    def forward(self, x: Tensor) -> Tensor:
        """X [1, tokens, hidden] → the same shape."""
        flat, o = x[0], self.o
        q, k, v = (m(flat) for m in (self.a, self.b, self.c))
        if "clip" in o:
            q, k, v = (part.clamp(-o["clip"], o["clip"]) for part in (q, k, v))
        q, k, v = (part.view(len(flat), -1, DIM).transpose(0, 1) for part in (q, k, v))
        if o.get("norm"):
            q, k = rms(q, self.e), rms(k, self.f)
        if "rope" in o:
            q, k = turned(q, **o["rope"]), turned(k, **o["rope"])
        spread = (lambda t: t.repeat(2, 1, 1)) if o.get("repeat") else (lambda t: t.repeat_interleave(2, 0))
        mixed = self.mixed(q, spread(k), spread(v)).transpose(0, 1)
        if o.get("gate"):
            mixed = mixed * torch.sigmoid(self.g(flat)).unsqueeze(-1)
        return self.d(mixed.reshape(1, len(flat), -1))

    def mixed(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Scores, mask, softmax, values."""
        o, at = self.o, torch.arange(q.shape[1])
        scores = (q * o.get("scale", DIM**-0.5)) @ k.transpose(1, 2)
        if "cap" in o:
            scores = torch.tanh(scores / o["cap"]) * o["cap"]
        distance = at[:, None] - at
        scores = scores.masked_fill((distance < 0) | (distance >= o.get("window", len(at))), -1e9)
        if o.get("bias_on_scores"):
            scores = scores + torch.sin(distance.float())
        if o.get("sinks"):
            scores = torch.cat([scores, self.h.view(-1, 1, 1).expand(-1, len(at), 1)], -1)
        return scores.softmax(-1)[..., : len(at)] @ v


class Packed(nn.Module):
    """One product [inputs, outputs] for all, linear biases, batched products as BLOOM and MPT write them."""

    def __init__(self, layout: str) -> None:
        """`layout`: `stacked`, `heads` ([q, k, v] a head) or `mixed` (two parts, each [q, v, k])."""
        super().__init__()
        self.a, self.b = nn.Parameter(torch.empty(HIDDEN, 3 * HEADS * DIM)), nn.Parameter(torch.empty(3 * HEADS * DIM))
        self.c, self.layout = nn.Parameter(torch.empty(HEADS * DIM, HIDDEN)), layout

    def forward(self, x: Tensor) -> Tensor:
        """X [1, tokens, hidden] → the same shape."""
        both = torch.addmm(self.b, x[0], self.a)
        if self.layout == "stacked":
            parts = both.view(-1, 3, HEADS, DIM).unbind(1)
        elif self.layout == "heads":
            parts = both.view(-1, HEADS, 3, DIM).unbind(2)
        else:
            q, v, k = both.view(-1, 2, 3, HEADS // 2, DIM).unbind(2)
            parts = tuple(part.reshape(-1, HEADS, DIM) for part in (q, k, v))
        q, k, v = (part.transpose(0, 1) for part in parts)
        at = torch.arange(x.shape[1])
        slopes = 2.0 ** (-8 * torch.arange(1, HEADS + 1) / HEADS)
        bias = slopes.view(-1, 1, 1) * at
        scores = torch.baddbmm(bias, q, k.transpose(1, 2), beta=1.0, alpha=1 / math.sqrt(DIM))
        scores = scores.masked_fill(at[:, None] < at, torch.finfo(scores.dtype).min)
        mixed = torch.einsum("hqk,hkd->qhd", scores.softmax(-1), v)
        return (mixed.reshape(len(at), -1) @ self.c)[None]


class LowRank(nn.Module):
    """Keys and values out of a normed vector of 10; a rotated part of 4 that heads share."""

    def __init__(self) -> None:
        """Ten of rank, eight plain and four rotated elements a key, six a value."""
        super().__init__()
        self.a, self.b = nn.Linear(HIDDEN, HEADS * 12, bias=False), nn.Linear(HIDDEN, 14, bias=False)
        self.c, self.d = nn.Linear(10, HEADS * 14, bias=False), nn.Linear(HEADS * 6, HIDDEN, bias=False)
        self.e = nn.Parameter(torch.empty(10))

    def forward(self, x: Tensor) -> Tensor:
        """X [1, tokens, hidden] → the same shape."""
        tokens = x.shape[1]
        q = self.a(x).view(tokens, HEADS, 12).transpose(0, 1)
        q = torch.cat([q[..., :8], turned(q[..., 8:], interleaved=True, width=4)], -1)
        low, shared = self.b(x)[0].split([10, 4], -1)
        k, v = self.c(rms(low, self.e)).view(tokens, HEADS, 14).transpose(0, 1).split([8, 6], -1)
        shared = turned(shared[None], interleaved=True, width=4)
        k = torch.cat([k, shared.expand(HEADS, -1, -1)], -1)
        scores = q @ k.transpose(1, 2) * 12**-0.5
        scores = scores.masked_fill(~torch.ones(tokens, tokens, dtype=torch.bool).tril(), float("-inf"))
        return self.d((scores.softmax(-1) @ v).transpose(0, 1).reshape(1, tokens, -1))
