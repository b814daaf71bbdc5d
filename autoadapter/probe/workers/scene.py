"""A reference model that was watched once: what every fitter looks at."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from autoadapter.probe.workers.trace import Event, Seen, Trace


@dataclass(frozen=True, eq=False)
class Scene:
    """The tiny clone in float32, its config, and one traced forward pass over a single sequence, without a cache."""

    model: nn.Module
    config: Any
    """The text config of the model (`get_text_config()`)."""
    ids: torch.Tensor
    """[1, tokens]"""
    logits: torch.Tensor
    """[1, tokens, vocabulary]"""
    trace: Trace
    layers: tuple[str, ...]
    """Paths of the decoder layers, in order."""

    def parameter(self, name: str) -> torch.Tensor:
        """A parameter or buffer by its name in the model."""
        return (
            self.model.state_dict(keep_vars=True)[name]
            if name in self.model.state_dict()
            else self.model.get_buffer(name)
        )


@dataclass(frozen=True, eq=False)
class Block:
    """A branch of a layer between its norms: what a mixer's fitter explains."""

    layer: int
    module: str
    """Path of the smallest module that holds all of `events`; the layer itself when the block is inline."""
    x: Seen
    """[1, tokens, hidden]: what the block reads, after input norm and input scale."""
    y: Seen
    """[1, tokens, hidden]: what it returns, before output norm and output scale."""
    events: tuple[Event, ...]
    """What leads from x to y, in order; helpers computed elsewhere (masks, rotary tables) are not among them."""
    mixes_tokens: bool
    """Whether a token's output depends on earlier tokens, measured by perturbing one."""
