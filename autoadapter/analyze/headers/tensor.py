"""One tensor as its header describes it."""

from math import prod
from typing import NamedTuple


class TensorInfo(NamedTuple):
    """A stored tensor. A tuple, because checkpoints have up to 100,000 of them."""

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
