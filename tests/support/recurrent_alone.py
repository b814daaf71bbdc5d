"""Blocks with a state, each token after token; names that say nothing."""

import torch
import torch.nn.functional as F
from blocks_alone import HIDDEN
from torch import Tensor, nn

STATE_CONFIG = {
    "mamba_num_heads": 4,
    "mamba_head_dim": 6,
    "n_groups": 2,
    "state_size": 5,
    "conv_kernel": 4,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 6,
    "linear_value_head_dim": 7,
    "linear_conv_kernel_dim": 3,
    "rms_norm_eps": 1e-5,
}


def rms(x: Tensor) -> Tensor:
    """Over the last axis."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)


class ShortConvolution(nn.Module):
    """C · conv(B · x) between two products."""

    def __init__(self) -> None:
        """A kernel of three."""
        super().__init__()
        self.a, self.c = nn.Linear(HIDDEN, 3 * HIDDEN, bias=False), nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.b = nn.Conv1d(HIDDEN, HIDDEN, 3, groups=HIDDEN, padding=2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """X [1, tokens, hidden] → the same shape."""
        b, c, values = self.a(x).transpose(1, 2).chunk(3, 1)
        return self.c((c * self.b(b * values)[..., : x.shape[1]]).transpose(1, 2))


class StateSpace(nn.Module):
    """Mamba-2 with four heads of six, two groups, a state of five."""

    def __init__(self, *, before: bool, grouped: bool) -> None:
        """`before`: the norm comes before the gate; `grouped`: it is over each group."""
        super().__init__()
        self.a, self.c = nn.Linear(HIDDEN, 24 + 44 + 4, bias=False), nn.Linear(24, HIDDEN, bias=False)
        self.b = nn.Conv1d(44, 44, 4, groups=44, padding=3)
        self.f, self.e, self.d = (nn.Parameter(torch.empty(4)) for _ in range(3))
        self.g, self.before, self.parts = nn.Parameter(torch.empty(24)), before, 2 if grouped else 1

    def forward(self, x: Tensor) -> Tensor:
        """X [1, tokens, hidden] → the same shape."""
        z, mixed, step = self.a(x)[0].split([24, 44, 4], -1)
        mixed = F.silu(self.b(mixed.t()[None])[0, :, : x.shape[1]].t())
        values, b, c = mixed.split([24, 10, 10], -1)
        step, state, rows = F.softplus(step + self.d), torch.zeros(4, 6, 5), []
        for at in range(x.shape[1]):
            v = values[at].view(4, 6)
            b_at, c_at = (part[at].view(2, 5).repeat_interleave(2, 0) for part in (b, c))
            decay = torch.exp(-torch.exp(self.f) * step[at])
            state = decay[:, None, None] * state + (step[at, :, None] * v)[..., None] * b_at[:, None]
            rows.append((state @ c_at[..., None])[..., 0] + self.e[:, None] * v)
        y, gate = torch.stack(rows).flatten(1), F.silu(z)
        y = self.normed(y) * gate if self.before else self.normed(y * gate)
        return self.c(y)[None]

    def normed(self, y: Tensor) -> Tensor:
        """RMS over each part, one weight."""
        return rms(y.unflatten(-1, (self.parts, -1))).flatten(-2) * self.g


class DeltaRule(nn.Module):
    """Two key heads of six, four value heads of seven; one product per key head [q, k, v, z], one for [b, a]."""

    def __init__(self) -> None:
        """A kernel of three."""
        super().__init__()
        self.a, self.h = nn.Linear(HIDDEN, 2 * 40, bias=False), nn.Linear(HIDDEN, 8, bias=False)
        self.b, self.c = (
            nn.Conv1d(52, 52, 3, groups=52, padding=2, bias=False),
            nn.Linear(28, HIDDEN, bias=False),
        )
        self.d, self.e = nn.Parameter(torch.empty(4)), nn.Parameter(torch.empty(4))
        self.g = nn.Parameter(torch.empty(7))

    def forward(self, x: Tensor) -> Tensor:
        """X [1, tokens, hidden] → the same shape."""
        tokens = x.shape[1]
        q, k, v, z = self.a(x).view(1, tokens, 2, 40).split([6, 6, 14, 14], -1)
        b, a = (part.reshape(tokens, 4) for part in self.h(x).view(tokens, 2, 4).split([2, 2], -1))
        mixed = torch.cat([part.reshape(1, tokens, -1) for part in (q, k, v)], -1).transpose(1, 2)
        mixed = F.silu(self.b(mixed)[..., :tokens]).transpose(1, 2)[0]
        q, k, v = (p.view(tokens, -1, w) for p, w in zip(mixed.split([12, 12, 28], -1), (6, 6, 7), strict=True))
        q, k = ((p * torch.rsqrt(p.pow(2).sum(-1, keepdim=True) + 1e-6)).repeat_interleave(2, 1) for p in (q, k))
        decay, beta = torch.exp(-self.d.exp() * F.softplus(a + self.e)), b.sigmoid()
        state, rows = torch.zeros(4, 6, 7), []
        for at in range(tokens):
            state = state * decay[at, :, None, None]
            change = (v[at] - (k[at][:, None] @ state)[:, 0]) * beta[at, :, None]
            state = state + k[at][..., None] * change[:, None]
            rows.append((q[at][:, None] @ state)[:, 0] * 6**-0.5)
        y = rms(torch.stack(rows)) * self.g * F.silu(z.reshape(tokens, 4, 7))
        return self.c(y.reshape(1, tokens, -1))
