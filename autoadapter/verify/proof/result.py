"""What a proof says."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from autoadapter.artifacts.base import Frozen

GATE = 1e-3
"""Largest absolute difference of log-probabilities in float32. Right code measured 2e-6 to 6e-4 over 80 architectures,
the wrong answers of vLLM 0.32 at least 0.1."""
ModelImpl = Literal["vllm", "transformers", "auto"]


class ProofStatus(StrEnum):
    """How a proof ended."""

    PROVEN = "proven"
    WRONG = "wrong"
    """The engine answers, and its log-probabilities are not the reference's."""
    FAILED = "failed"
    """The engine or the reference did not get to an answer."""
    NOT_RUN = "not_run"
    """This machine cannot compute it: nothing is claimed."""


class CaseResult(Frozen):
    """One batch: largest absolute differences of log-probabilities; None where one side was no number."""

    name: str
    prefill: float | None
    decode: float | None
    first_wrong: int | None = None
    """The first position (0 is the first token) beyond the gate, of the prompt that has the earliest."""

    @property
    def passed(self) -> bool:
        """Whether both phases keep the gate."""
        return all(number is not None and number <= GATE for number in (self.prefill, self.decode))


class ProofResult(Frozen):
    """The verdict on one checkpoint and one way to serve it."""

    status: ProofStatus
    model_impl: ModelImpl
    reason: str = ""
    verdict: Literal["", "unprovable_here"] = ""
    max_abs_logprob_diff: float | None = None
    """Over all cases, positions and the whole vocabulary."""
    cases: tuple[CaseResult, ...] = ()
    answered_by: str = ""
    """The class that computed the logits: `package.module:Class`."""
    argmax_agreement: float | None = None
    """Share of positions where both have the same likeliest token: often 1 for a wrong model."""
    spread: float | None = None
    """Standard deviation of the reference's log-probabilities; near 0 the clone would hide differences."""
    seconds: float = 0.0
    versions: dict[str, str] = Field(default_factory=dict)
    log: str = ""
