"""An index over the rows of a spec's parameters: random weights make every row unique."""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

EXPERT = re.compile(r"layers\.\d+\.\d+\.experts\.(gate|up|down)_proj\.(weight|bias)")
"""Parameters with one slice an expert; a block that is carried over has its own names."""


@dataclass(frozen=True)
class Place:
    """A row of a spec parameter."""

    name: str
    expert: int | None
    row: int


@dataclass
class Lookup:
    """Which rows of which parameters hold given values."""

    parameters: Mapping[str, Tensor]
    matrices: dict[bytes, list[Place]] = field(default_factory=lambda: defaultdict(list))
    """By a row of a matrix."""
    vectors: dict[bytes, list[Place]] = field(default_factory=lambda: defaultdict(list))
    """By a whole vector."""

    def __post_init__(self) -> None:
        """Index every parameter."""
        for name, tensor in self.parameters.items():
            for expert, part in each_expert(name, tensor):
                if part.ndim == 1:
                    self.vectors[as_bytes(part)].append(Place(name, expert, 0))
                    continue
                for row, values in enumerate(part.reshape(-1, part.shape[-1])):
                    self.matrices[as_bytes(values)].append(Place(name, expert, row))

    def tensor(self, place: Place) -> Tensor:
        """The parameter, of one expert where it is an expert's."""
        whole = self.parameters[place.name]
        return whole if place.expert is None else whole[place.expert]


def each_expert(name: str, tensor: Tensor) -> list[tuple[int | None, Tensor]]:
    """The parameter of each expert, or the one parameter."""
    return list(enumerate(tensor)) if EXPERT.fullmatch(name) else [(None, tensor)]


def as_bytes(tensor: Tensor) -> bytes:
    """The values, for comparing."""
    return tensor.contiguous().numpy().tobytes()
