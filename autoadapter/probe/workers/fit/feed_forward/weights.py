"""How much of each expert's output a token got: solved from the block's output, without knowing the router."""

from dataclasses import dataclass

import torch
from torch import Tensor

NOTHING = 2e-5
"""A weight below this, relative to the largest, is none."""


@dataclass(frozen=True, eq=False)
class Shares:
    """The block's output as a sum of experts."""

    routed: Tensor
    """[tokens, experts], 0 where an expert was not chosen."""
    shared: Tensor | None
    """[tokens]: of the shared experts' output."""
    error: float
    """Of the sum, relative to the largest element of the output."""


def solve(y: Tensor, outputs: Tensor, shared: Tensor | None) -> Shares:
    """The shares that make up y [tokens, hidden] of experts' outputs [experts, tokens, hidden] and the shared one's."""
    parts = outputs if shared is None else torch.cat([outputs, shared[None]])
    basis = parts.permute(1, 2, 0)
    solution = torch.linalg.lstsq(basis, y[..., None], driver="gelsd").solution
    error = float((basis @ solution - y[..., None]).abs().max() / y.abs().max())
    shares = solution[..., 0]
    routed = shares[:, : len(outputs)]
    routed = torch.where(routed.abs() > NOTHING * routed.abs().max(), routed, torch.zeros(()).double())
    return Shares(routed, None if shared is None else shares[:, -1], error)
