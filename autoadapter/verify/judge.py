"""From measured values to a verdict: a check says what it measured and what limits hold, nothing else."""

import math
import operator
from collections.abc import Callable, Sequence
from typing import Protocol

from pydantic import JsonValue

from autoadapter.artifacts import CheckResult, Status, Threshold

_HOLDS: dict[str, Callable[[float, float], bool]] = {"<=": operator.le, ">=": operator.ge, "==": operator.eq}
Measured = dict[str, JsonValue]


class Named(Protocol):
    """What a verdict needs to know of a check."""

    @property
    def name(self) -> str:
        """Short, unique."""

    @property
    def title(self) -> str:
        """For people."""


def holds(threshold: Threshold, measured: Measured) -> bool:
    """Whether the measured value keeps the limit. A value that is absent or not a finite number does not."""
    value = measured.get(threshold.name)
    if not isinstance(value, int | float) or not math.isfinite(value):
        return False
    return _HOLDS[threshold.direction](value, threshold.limit)


def judged(check: Named, measured: Measured, thresholds: Sequence[Threshold], summary: str) -> CheckResult:
    """Passed when every threshold holds; otherwise failed, naming each that does not.

    Args:
        check: whose result it is.
        measured: values under the thresholds' names, and whatever else explains them.
        thresholds: at least one; a check without a limit could not fail.
        summary: one sentence for a check that passed.
    """
    if not thresholds:
        raise ValueError(f"check {check.name} has no threshold")
    finite: Measured = {key: _json(value) for key, value in measured.items()}
    broken = [_says(threshold, finite) for threshold in thresholds if not holds(threshold, finite)]
    status, reason = (Status.FAILED, "; ".join(broken) + ".") if broken else (Status.PASSED, summary)
    return _result(check, status, reason, finite, tuple(thresholds))


def not_run(check: Named, reason: str) -> CheckResult:
    """No claim, and why."""
    return _result(check, Status.NOT_RUN, reason, {}, ())


def failed(check: Named, reason: str) -> CheckResult:
    """A check that broke off: the engine did not start, died, or answered wrongly."""
    return _result(check, Status.FAILED, reason, {"error": reason}, ())


def _result(
    check: Named, status: Status, reason: str, measured: Measured, thresholds: tuple[Threshold, ...]
) -> CheckResult:
    return CheckResult(
        name=check.name,
        title=check.title,
        status=status,
        reason=reason,
        seconds=0.0,
        measured=measured,
        thresholds=thresholds,
        command="",
    )


def _says(threshold: Threshold, measured: Measured) -> str:
    value = measured.get(threshold.name)
    shown = f"{value:.4g}" if isinstance(value, int | float) else "not measured"
    wanted = {"<=": "at most", ">=": "at least", "==": "exactly"}[threshold.direction]
    return f"{threshold.name} is {shown}, must be {wanted} {threshold.limit:g}"


def _json(value: JsonValue) -> JsonValue:
    """JSON knows no NaN and no infinity; what was not a number is null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [_json(item) for item in value]
    if isinstance(value, dict):
        return {key: _json(item) for key, item in value.items()}
    return value
