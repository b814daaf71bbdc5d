"""Each fitted value flipped to its runner-up: which axes the clone exercises, so that a proof on it says something."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from autoadapter.artifacts.decoder import DecoderSpec
from autoadapter.probe.workers.replay import replay

NOTICED = 1e-3
"""A proof's tolerance: the smallest difference of log-probabilities that it reports."""


@dataclass(frozen=True)
class Flip:
    """One value exchanged for the second-best candidate."""

    path: str
    value: Any
    runner_up: Any
    logprob_difference: float
    """Largest over all tokens and the whole vocabulary; infinite where the flipped decoder cannot run at all."""
    exercised: bool
    """Whether a proof would notice."""


def flips(
    spec: DecoderSpec,
    parameters: Mapping[str, Tensor],
    ids: Tensor,
    config: Any,
    logits: Tensor,
    *,
    model: nn.Module | None = None,
) -> tuple[Flip, ...]:
    """Every value of the evidence that has a runner-up, flipped alone.

    Args:
        spec: as fitted.
        parameters: by spec name.
        ids: [tokens] or [1, tokens].
        config: the text config.
        logits: the reference's, [tokens, vocabulary].
        model: the reference; only needed with blocks that are carried over.
    """
    plain = logits.log_softmax(-1)
    result = []
    for seen in spec.evidence:
        if seen.runner_up is None:
            continue
        flipped = spec.with_value(seen.path, seen.runner_up)
        difference = _difference(flipped, plain, lambda it: replay(it, parameters, ids, config, model=model))
        result.append(Flip(seen.path, seen.value, seen.runner_up, difference, not difference <= NOTICED))
    return tuple(result)


def _difference(spec: DecoderSpec, plain: Tensor, run: Callable[[DecoderSpec], Tensor]) -> float:
    try:
        made = run(spec)
    except (RuntimeError, KeyError, IndexError):  # sizes that do not fit, a parameter that is not there
        return float("inf")
    return float((made.log_softmax(-1) - plain).abs().max())
