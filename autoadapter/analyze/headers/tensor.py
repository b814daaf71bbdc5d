"""One tensor as its header describes it."""

from dataclasses import dataclass
from math import prod


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A stored tensor."""

    name: str
    dtype: str
    """safetensors' word (`BF16`, `I8`) or GGML's (`Q4_1`)."""
    shape: tuple[int, ...]
    """Outermost dimension first, in torch's order for every format."""
    bytes: int
    """Bytes as stored."""
    file: str

    @property
    def elements(self) -> int:
        """Number of elements; 1 for a scalar."""
        return prod(self.shape)
