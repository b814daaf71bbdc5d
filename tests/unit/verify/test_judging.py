"""Verdicts come from thresholds alone, and what is not a number never passes."""

import math

import pytest

from autoadapter.artifacts import Status, Threshold
from autoadapter.verify.checks.memory import MemoryCheck
from autoadapter.verify.judge import failed, holds, judged, not_run
from autoadapter.verify.stats import histogram, log_edges, mean, percentile, standard_error

CHECK = MemoryCheck()


def limit(direction: str = "<=", value: float = 1.0) -> Threshold:
    return Threshold(name="x", limit=value, direction=direction, source="test")


@pytest.mark.parametrize(
    ("direction", "value", "kept"),
    [("<=", 1.0, True), ("<=", 1.01, False), (">=", 1.0, True), (">=", 0.5, False), ("==", 1, True), ("==", 2, False)],
)
def test_directions(direction: str, value: float, kept: bool) -> None:
    assert holds(limit(direction), {"x": value}) is kept


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None, "1", [1]])
@pytest.mark.parametrize("direction", ["<=", ">=", "=="])
def test_what_is_not_a_finite_number_keeps_no_limit(direction: str, value: object) -> None:
    assert not holds(limit(direction), {"x": value})  # type: ignore[dict-item]
    assert not holds(limit(direction), {})


def test_a_broken_limit_fails_and_is_named() -> None:
    result = judged(CHECK, {"x": 3.0}, [limit()], "fine")
    assert result.status is Status.FAILED
    assert result.reason == "x is 3, must be at most 1."


def test_nan_becomes_null_in_the_report() -> None:
    result = judged(CHECK, {"x": math.nan, "more": [1.0, math.inf], "deep": {"y": math.nan}}, [limit()], "fine")
    assert result.status is Status.FAILED
    assert result.measured == {"x": None, "more": [1.0, None], "deep": {"y": None}}


def test_a_check_without_a_limit_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="no threshold"):
        judged(CHECK, {"x": 1.0}, [], "fine")


def test_the_other_two_outcomes() -> None:
    assert not_run(CHECK, "because").status is Status.NOT_RUN
    broken = failed(CHECK, "vLLM died")
    assert (broken.status, broken.measured) == (Status.FAILED, {"error": "vLLM died"})


def test_statistics_against_known_values() -> None:
    values = [1.0, 2.0, 3.0, 4.0]
    assert mean(values) == 2.5
    assert standard_error(values) == pytest.approx(math.sqrt(5 / 3) / 2)
    assert percentile(values, 50) == 2.5
    assert percentile(values, 99) == pytest.approx(3.97)
    assert percentile([7.0], 99) == 7.0
    assert all(math.isnan(nothing) for nothing in (mean([]), standard_error([1.0]), percentile([], 50)))


def test_histogram_loses_nothing() -> None:
    edges = log_edges(0.001, 10.0, 4)
    assert edges == pytest.approx([0.001, 0.01, 0.1, 1.0, 10.0])
    assert histogram([0.0, 0.005, 0.05, 0.5, 5.0, 500.0], edges) == [2, 1, 1, 2]
