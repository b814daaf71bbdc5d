"""The three-tensor comparison: vLLM, transformers in the served dtype, transformers in float32."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from autoadapter.engine.client import TopLogprobs
from autoadapter.verify.judge import Measured
from autoadapter.verify.stats import histogram, log_edges, mean

BINS = 24
SMALLEST, LARGEST = 1e-4, 10.0


class Compared(Protocol):
    """One sequence with vLLM's log-probabilities."""

    @property
    def prefill(self) -> list[TopLogprobs]:
        """Positions of the prompt."""

    @property
    def positions(self) -> list[TopLogprobs]:
        """Positions of prompt and continuation."""


@dataclass(frozen=True)
class Errors:
    """Absolute differences to float32 transformers, nats, one per compared token."""

    served: list[float]
    """vLLM in the served dtype."""
    rounded: list[float]
    """transformers in the served dtype: what rounding alone costs."""
    control: list[float]
    """transformers in float32 with a deliberate error in the logits."""

    def measured(self, phase: str) -> Measured:
        """The figures that thresholds speak of, prefixed by the phase."""
        served, rounded, control = mean(self.served), mean(self.rounded), mean(self.control)
        worst, worst_rounded = max(self.served, default=math.nan), max(self.rounded, default=math.nan)
        return {
            f"{phase}_mean_error": served,
            f"{phase}_max_error": worst,
            f"{phase}_rounding_mean_error": rounded,
            f"{phase}_rounding_max_error": worst_rounded,
            f"{phase}_mean_ratio": served / rounded if rounded else None,
            f"{phase}_max_ratio": worst / worst_rounded if worst_rounded else None,
            f"{phase}_control_mean_error": control,
            f"{phase}_control_ratio": control / rounded if rounded else None,
        }


def errors(cases: Sequence[Compared], truth: dict[str, Any], *, decode: bool) -> Errors:
    """Differences over the prompts' positions, or over the generated ones.

    Args:
        cases: what vLLM said.
        truth: passes `exact`, `rounded` and `control` of the worker, one entry per case.
        decode: whether to take the generated positions.
    """
    columns: dict[str, list[float]] = {"served": [], "rounded": [], "control": []}
    for number, case in enumerate(cases):
        start = len(case.prefill)
        which = range(start, len(case.positions)) if decode else range(start)
        for at in which:
            exact = truth["exact"][number]["logprobs"][at]
            columns["served"] += _gaps(list(case.positions[at].values()), exact)
            for name in ("rounded", "control"):
                columns[name] += _gaps(truth[name][number]["logprobs"][at], exact)
    return Errors(**columns)


def histograms(*parts: Errors) -> Measured:
    """Counts per error size, for vLLM and for rounding alone, over shared logarithmic bins."""
    edges = log_edges(SMALLEST, LARGEST, BINS)
    served = [value for part in parts for value in part.served]
    rounded = [value for part in parts for value in part.rounded]
    return {
        "edges": list(edges),
        "served": list(histogram(served, edges)),
        "rounded": list(histogram(rounded, edges)),
    }


def _gaps(values: Sequence[float], exact: Sequence[float]) -> list[float]:
    return [abs(value - right) for value, right in zip(values, exact, strict=True)]
