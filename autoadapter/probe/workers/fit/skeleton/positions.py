"""Recognises absolute positions by the rows that were added to the embeddings."""

from collections.abc import Iterator, Sequence

import torch

from autoadapter.artifacts.decoder import Evidence, Positions
from autoadapter.probe.workers.fit.binding import bind
from autoadapter.probe.workers.fit.fitted import Fitted, ParameterUse, UnexplainedError
from autoadapter.probe.workers.fit.norms import ROUNDING
from autoadapter.probe.workers.scene import Scene

ROW_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "n_ctx", "seq_length")
OFFSETS = range(9)
BASE = 10000.0


def sinusoids(positions: Positions, tokens: int, hidden: int) -> torch.Tensor:
    """The computed table [tokens, hidden] in float32, as the reference makes it."""
    divisor = hidden // 2 - (1 if positions.frequencies == "fairseq" else 0)
    frequencies = BASE ** (-torch.arange(hidden // 2, dtype=torch.float32) / divisor)
    angle = (torch.arange(tokens) + positions.offset)[:, None] * frequencies
    if positions.order == "halves":
        return torch.cat([angle.sin(), angle.cos()], -1)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)


def fit_positions(scene: Scene, added: torch.Tensor, parameters: Sequence[str]) -> Fitted[Positions]:
    """The positions behind what was added.

    Args:
        scene: the reference.
        added: [tokens, hidden].
        parameters: names of the tables from which it may have come.

    Raises:
        UnexplainedError: neither rows of a learned table nor sinusoids.
    """
    scored = sorted(
        [*_learned(scene, added, parameters), *_computed(added)],
        key=lambda found: (found[0] > ROUNDING, found[1].kind == "sinusoidal" and found[0] > ROUNDING, found[0]),
    )
    best = scored[0] if scored else None
    if best is None or best[0] > ROUNDING:
        tried = tuple((f"{p.kind} +{p.offset}", error) for error, p, _ in scored[:3])
        raise UnexplainedError("positions", tried, "what is added to the embeddings is no table of positions")
    error, positions, table = best
    uses = () if table is None else (ParameterUse(table, ("positions.weight",)),)
    return Fitted(positions, error, tuple(_evidence(scored)), uses)


def _learned(
    scene: Scene, added: torch.Tensor, parameters: Sequence[str]
) -> Iterator[tuple[float, Positions, str | None]]:
    learned = {name for name, _ in scene.model.named_parameters()}
    for name in dict.fromkeys(parameters):
        table = scene.parameter(name).detach()
        if name not in learned or table.ndim != 2 or table.shape[1] != added.shape[1]:
            continue
        for offset in OFFSETS:
            if offset + len(added) <= len(table):
                rows = bind(scene.config, len(table), ROW_KEYS)
                error = _error(table[offset : offset + len(added)], added)
                yield error, Positions(kind="learned", offset=offset, rows=rows), name


def _computed(added: torch.Tensor) -> Iterator[tuple[float, Positions, str | None]]:
    for order in ("halves", "interleaved"):
        for frequencies in ("fairseq", "vaswani"):
            for offset in OFFSETS:
                one = Positions(kind="sinusoidal", offset=offset, order=order, frequencies=frequencies)
                yield _error(sinusoids(one, *added.shape), added), one, None


def _error(made: torch.Tensor, added: torch.Tensor) -> float:
    return float((made - added).abs().max() / added.abs().max().clamp_min(1e-30))


def _evidence(scored: list[tuple[float, Positions, str | None]]) -> Iterator[Evidence]:
    error, chosen, table = scored[0]
    axes = ("offset",) if chosen.kind == "learned" else ("offset", "order", "frequencies")
    for axis in axes:
        value = getattr(chosen, axis)
        rivals = (one for one in scored if one[2] == table and getattr(one[1], axis) != value)
        rival = next(rivals, None)
        yield Evidence(
            path=axis,
            value=value,
            max_error=error,
            runner_up=None if rival is None else getattr(rival[1], axis),
            runner_up_error=None if rival is None else rival[0],
        )
