"""What a fitter returns, and how it says that it cannot."""

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from autoadapter.artifacts.decoder import Evidence, Value

Part = TypeVar("Part")
ONE = Value(number=1)


@dataclass(frozen=True)
class ParameterUse:
    """Which parameter of the reference holds which parameters of the spec; the fields are those of `WeightSource`."""

    parameter: str
    """Its name in the model, numbers and all: `model.layers.3.self_attn.q_proj.weight`."""
    targets: tuple[str, ...]
    """Relative to what was fitted: `q_proj.weight`."""
    groups: Value = ONE
    transposed: bool = False
    experts: Literal["none", "named", "leading", "rows"] = "none"
    expert: int | None = None
    """Under `named`: which one."""


@dataclass(frozen=True)
class Fitted(Generic[Part]):
    """A part of the spec with the evidence for it; paths and targets are relative to the part."""

    value: Part
    error: float
    """Largest absolute error of the part recomputed from captured inputs, relative to its largest element."""
    evidence: tuple[Evidence, ...] = ()
    uses: tuple[ParameterUse, ...] = ()


class UnexplainedError(Exception):
    """No candidate reproduces the block."""

    def __init__(self, block: str, candidates: tuple[tuple[str, float], ...], why: str) -> None:
        """`block`: the module's path; `candidates`: the best ones tried, with their relative errors, best first."""
        super().__init__(f"{block}: {why}")
        self.block, self.candidates, self.why = block, candidates, why
