"""The parameters that one part of a decoder sees, and what surrounds it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Scope:
    """Parameters below a prefix, by their names relative to it."""

    tensors: Mapping[str, Tensor]
    prefix: str = ""

    def __getitem__(self, name: str) -> Tensor:
        """The parameter.

        Raises:
            KeyError: there is none of this name; the message is its full name.
        """
        return self.tensors[self.prefix + name]

    def __contains__(self, name: str) -> bool:
        """Whether there is a parameter of this name."""
        return self.prefix + name in self.tensors

    def below(self, name: str) -> "Scope":
        """What lies below a part of this part."""
        return Scope(self.tensors, f"{self.prefix}{name}.")

    def inside(self) -> dict[str, Tensor]:
        """All parameters below the prefix."""
        return {
            name[len(self.prefix) :]: tensor for name, tensor in self.tensors.items() if name.startswith(self.prefix)
        }

    def linear(self, name: str, x: Tensor, *, bias: bool) -> Tensor:
        """The projection `name` of x [..., inputs] → [..., outputs]."""
        return F.linear(x, self[f"{name}.weight"], self[f"{name}.bias"] if bias else None)


@dataclass(frozen=True)
class Setting:
    """What mixers read besides their parameters."""

    config: Any
    """The config that `Rope.parameters` points into."""
    model: nn.Module | None = None
    """The reference: blocks that are carried over run in it."""
