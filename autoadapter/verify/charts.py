"""Which charts a report has: one function per check that has something to draw."""

from collections.abc import Callable, Iterator
from typing import Any, cast

from autoadapter.artifacts import CheckResult, Status, VerificationReport
from autoadapter.verify.plots import Chart, Words, bars, shares

Measured = dict[str, Any]
SEEN = 0.01
"""Relative difference below which two bars look alike."""


def charts_of(report: VerificationReport) -> dict[str, tuple[Chart, ...]]:
    """Check name → its charts. A check that was not run, or broke off, has none."""
    return {check.name: tuple(_draw(check)) for check in report.checks}


def _draw(check: CheckResult) -> Iterator[Chart]:
    draw = DRAWN.get(check.name)
    if draw is None or check.status is Status.NOT_RUN or "error" in check.measured:
        return
    yield from draw(cast(Measured, check.measured))


def parity_charts(measured: Measured) -> Iterator[Chart]:
    """Sizes of the errors: vLLM's beside those of rounding alone."""
    found = measured["histogram"]
    total = max(sum(found["served"]), 1)
    groups = [
        (f"{edge:.1g}", [100 * served / total, 100 * rounded / total])
        for edge, served, rounded in zip(found["edges"], found["served"], found["rounded"], strict=False)
    ]
    words = Words(
        "Error of each log-probability against float32",
        "Share of compared log-probabilities by the size of their error. If vLLM computes the same model, its "
        "distribution lies on that of rounding alone.",
        "% of log-probabilities",
        "absolute error, nats (lower edge of the bin, logarithmic)",
    )
    yield bars(words, ("vLLM", f"transformers in {measured['dtype']}"), groups)


def quality_charts(measured: Measured) -> Iterator[Chart]:
    """Negative log-likelihood per window, before and after."""
    windows = measured["windows"]
    groups = [
        (f"{window['text'][:5]} {at}", [window["before"], window["after"]]) for at, window in enumerate(windows, 1)
    ]
    words = Words(
        "Held-out text, window by window",
        "Mean negative log-likelihood per token of each window, before and as served; lower is better.",
        "nats per token",
    )
    yield bars(words, ("before", "as served"), groups)


def memory_charts(measured: Measured) -> Iterator[Chart]:
    """Predicted and observed KV tokens, where they differ enough to be seen."""
    if measured["relative_error"] <= SEEN:
        return
    groups = [("KV cache", [measured["kv_tokens_predicted"], measured["kv_tokens_observed"]])]
    words = Words("KV cache", "Tokens that the KV cache holds: predicted by the plan, found by vLLM.", "tokens")
    yield bars(words, ("predicted", "observed"), groups)


def load_charts(measured: Measured) -> Iterator[Chart]:
    """How long the burst's requests took."""
    if not measured["e2e_seconds"]:
        return
    words = Words(
        "Burst: share of requests done after x seconds",
        "Cumulative share of requests by time to first token and by time to the whole answer.",
        "share of requests",
        "seconds since the burst",
    )
    yield shares(words, [("first token", measured["ttft_seconds"]), ("whole answer", measured["e2e_seconds"])])


def bench_charts(measured: Measured) -> Iterator[Chart]:
    """Latency percentiles."""
    percentiles = ("p50", "p90", "p99")
    short_ones, long_ones = (("tpot", "itl"), ("ttft", "e2el"))
    for names, what in ((long_ones, "Per request"), (short_ones, "Per token")):
        groups = [(name.upper(), [measured[f"{p}_{name}_ms"] for p in percentiles]) for name in names]
        words = Words(f"{what}: latency percentiles", f"{what} latency in milliseconds, by vllm bench serve.", "ms")
        yield bars(words, percentiles, groups)


DRAWN: dict[str, Callable[[Measured], Iterator[Chart]]] = {
    "parity": parity_charts,
    "quality": quality_charts,
    "memory": memory_charts,
    "load": load_charts,
    "bench": bench_charts,
}
