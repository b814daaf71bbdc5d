"""What quantizing cost: perplexity on held-out text, before and after, token by token on the same windows."""

import math
import statistics
from collections.abc import Sequence
from pathlib import Path

from autoadapter.artifacts import Finding, Level, QualityDelta, StepRecord
from autoadapter.errors import WorkerError
from autoadapter.optimize.backend import Job
from autoadapter.optimize.steps import redirect, run_step
from autoadapter.optimize.texts import HELD_OUT, text_sha256

WINDOWS = 8
WINDOW_TOKENS = 256
NOTABLE_NLL = 0.05
"""Nats a token. Above it (by two standard errors) users should look at the answers: about +5 % perplexity."""


def measure(job: Job, after: Path, final: Path) -> tuple[QualityDelta, StepRecord]:
    """Compare `job.source` with the checkpoint in `after`, which will be called `final`.

    Both run in fp32 in one process of the quantizer's environment, which can read compressed-tensors.

    Raises:
        WorkerError: the worker failed, or a loss is not a finite number.
    """
    request = {
        "before": str(job.source),
        "after": str(after),
        "text": str(HELD_OUT),
        "windows": WINDOWS,
        "window_tokens": WINDOW_TOKENS,
        "dtype": "float32",
        "trust_remote_code": job.trust_remote_code,
    }
    outcome, step = run_step("perplexity", "transformers", job, request)
    redirect(job.logs / "perplexity.log", after=str(final))
    before_losses, after_losses = (_flat(outcome.result[side]) for side in ("before", "after"))
    if not all(map(math.isfinite, (*before_losses, *after_losses))):
        raise WorkerError("Perplexity is not a finite number.", log=job.logs / "perplexity.log")
    return compare(before_losses, after_losses), step


def _flat(windows: Sequence[Sequence[float]]) -> list[float]:
    return [loss for window in windows for loss in window]


def compare(before: Sequence[float], after: Sequence[float]) -> QualityDelta:
    """Two lists of token losses (nats, same tokens in the same order) → the delta.

    The standard error is that of a paired mean over tokens, sd(differences) / sqrt(n). Neighbouring tokens share a
    context, so it is a little too small; with this few windows an error over windows would be noisier than that.
    """
    differences = [late - early for early, late in zip(before, after, strict=True)]
    return QualityDelta(
        text=HELD_OUT.name,
        text_sha256=text_sha256(HELD_OUT),
        tokens=len(differences),
        perplexity_before=round(math.exp(statistics.fmean(before)), 4),
        perplexity_after=round(math.exp(statistics.fmean(after)), 4),
        delta_nll=round(statistics.fmean(differences), 6),
        delta_nll_se=round(statistics.stdev(differences) / math.sqrt(len(differences)), 6),
    )


def findings(quality: QualityDelta) -> tuple[Finding, ...]:
    """A warning where the loss is larger than noise and larger than users should accept unseen."""
    if quality.delta_nll - 2 * quality.delta_nll_se <= NOTABLE_NLL:
        return ()
    rise = quality.perplexity_after / quality.perplexity_before - 1
    message = (
        f"Quantizing raised the perplexity on held-out text from {quality.perplexity_before:.2f} "
        f"to {quality.perplexity_after:.2f} ({rise:+.0%})."
    )
    return (
        Finding(
            code="optimize.quality-loss",
            level=Level.WARNING,
            message=message,
            hint="A milder scheme loses less: autoadapter generate --scheme int8_w8a8 (or as_is)",
            source=f"optimize/data/{quality.text}",
        ),
    )
