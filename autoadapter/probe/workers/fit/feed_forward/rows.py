"""Which rows of the block's input a tensor holds."""

from typing import Literal

import torch
from torch import Tensor

ALIKE = 1e-5


def reading(x: Tensor, rows: Tensor) -> Literal["rows", "scaled"] | None:
    """Whether every row of `rows` [n, hidden] is a row of x [tokens, hidden], or a multiple of one; None if neither."""
    if rows.shape[-1] != x.shape[-1] or not len(rows):
        return None
    if _bytes(rows) <= _bytes(x):
        return "rows"
    return "scaled" if scales(x, rows) is not None else None


def scales(x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor] | None:
    """For every row its token and by what that was multiplied; None where a row is no multiple of a token's."""
    x, rows = x.double(), rows.double()
    if rows.shape[-1] != x.shape[-1]:
        return None
    likeness = torch.nn.functional.normalize(rows, dim=-1) @ torch.nn.functional.normalize(x, dim=-1).T
    best, token = likeness.abs().max(-1)
    factor = (rows * x[token]).sum(-1) / x[token].square().sum(-1)
    misfit = (rows - factor[:, None] * x[token]).abs().max()
    zero = rows.abs().amax(-1) == 0
    if misfit > ALIKE * x.abs().max() or bool((best[~zero] < 1 - ALIKE).any()) or bool(zero.all()):
        return None
    return token, factor


def held(x: Tensor, rows: Tensor) -> Tensor:
    """Which rows of x [tokens, hidden] are among `rows`: [tokens], bool."""
    known = _bytes(rows)
    return torch.tensor([bool(_bytes(row[None]) & known) for row in x])


def _bytes(rows: Tensor) -> set[bytes]:
    return {row.tobytes() for row in rows.float().contiguous().numpy() + 0.0}
