"""Parameters of the spec out of the reference's, as `ParameterUse` says."""

from collections.abc import Callable, Iterable

import torch

from autoadapter.probe.workers.fit.fitted import ParameterUse


def unpack(
    uses: Iterable[ParameterUse], read: Callable[[str], torch.Tensor], rows: Callable[[str], int]
) -> dict[str, torch.Tensor]:
    """Every target with its tensor.

    Args:
        uses: where they are; several parameters of one target are one after the other.
        read: a parameter by its name in the model.
        rows: how many rows a target has.
    """
    found: dict[str, list[torch.Tensor]] = {}
    for use in uses:
        value = read(use.parameter).detach().float()
        value = value.t() if use.transposed else value
        if len(use.targets) == 1:
            found.setdefault(use.targets[0], []).append(value)
            continue
        parts, sizes = int(use.groups.number), [rows(target) for target in use.targets]
        folded = value.reshape(parts, sum(sizes) // parts, *value.shape[1:])
        for target, piece in zip(use.targets, folded.split([size // parts for size in sizes], 1), strict=True):
            found.setdefault(target, []).append(piece.reshape(-1, *value.shape[1:]))
    return {target: pieces[0] if len(pieces) == 1 else torch.cat(pieces) for target, pieces in found.items()}
