"""Facts about a clone that fitting relies on, measured."""

import torch
from torch import nn

from autoadapter.probe.workers.clone.loading import FIRST_TOKEN, logits_of

TOLERANCE = 1e-4


def changed(ids: torch.Tensor, position: int, vocabulary: int) -> torch.Tensor:
    """The same tokens with another one at a position."""
    other = ids.clone()
    span = vocabulary - FIRST_TOKEN
    other[:, position] = (other[:, position] - FIRST_TOKEN + 1 + span // 3) % span + FIRST_TOKEN
    return other


def is_causal(model: nn.Module, ids: torch.Tensor) -> bool:
    """Whether no token changes the logits of earlier ones."""
    logits = logits_of(model, ids)
    for position in (ids.shape[1] // 2, ids.shape[1] - 1):
        other = logits_of(model, changed(ids, position, logits.shape[-1]))
        if float((other - logits)[:, :position].abs().max()) > TOLERANCE:
            return False
    return True


def leaks_between_rows(model: nn.Module, ids: torch.Tensor) -> bool:
    """Whether a sequence's logits depend on which other sequence shares its batch."""
    other = changed(ids, 0, logits_of(model, ids).shape[-1])
    alone = logits_of(model, ids)[0]
    together = logits_of(model, torch.cat([other, ids]))[1]
    return float((together - alone).abs().max()) > TOLERANCE
