"""Tries candidates of a recurrent mixer by replaying each on the block's input."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from autoadapter.artifacts.decoder import Branch, Evidence, LayerKind, Mixer
from autoadapter.probe.workers.fit.fitted import Fitted, ParameterUse, UnexplainedError
from autoadapter.probe.workers.fit.recurrent.roles import relative
from autoadapter.probe.workers.replay.layers import MIXERS
from autoadapter.probe.workers.replay.scope import Scope, Setting
from autoadapter.probe.workers.scene import Block, Scene
from autoadapter.probe.workers.weights.cutting import parameters_of

EXACT = 5e-5
"""Relative error up to which a recomputed block is the block: a scan and its chunked form round differently."""
PREFIX = "layers.0.0."
NOT_SHOWN = frozenset({"mixer"})


@dataclass(frozen=True)
class Candidate:
    """A mixer and where its parameters are."""

    mixer: Mixer
    uses: tuple[ParameterUse, ...]


def choose(scene: Scene, block: Block, candidates: Iterable[Candidate]) -> Fitted[Any]:
    """The candidate that reproduces the block, with evidence for each field in which others differ.

    Raises:
        UnexplainedError: none does.
    """
    scored = sorted(((_error(scene, block, it), at, it) for at, it in enumerate(candidates)), key=lambda it: it[:2])
    if not scored or scored[0][0] > EXACT:
        best = tuple((_shown(it.mixer), error) for error, _, it in scored[:3])
        raise UnexplainedError(block.module, best, "no recurrent block reproduces it")
    error, _, chosen = scored[0]
    others = [(other, it.mixer) for other, _, it in scored[1:]]
    return Fitted(chosen.mixer, error, tuple(_evidence(chosen.mixer, error, others)), chosen.uses)


@torch.no_grad()
def _error(scene: Scene, block: Block, candidate: Candidate) -> float:
    kind = LayerKind(name="block", branches=(Branch(mixer=candidate.mixer),))
    named = [replace(use, targets=tuple(PREFIX + target for target in use.targets)) for use in candidate.uses]
    held = {use.parameter: scene.parameter(use.parameter).detach().float() for use in named}
    width = block.x.value.shape[-1]
    x, y = (seen.value.float().reshape(-1, width) for seen in (block.x, block.y))
    try:
        scope = Scope(parameters_of([kind], held, named), PREFIX)
        return relative(_run(candidate.mixer, scope, x, scene), y)
    except (RuntimeError, KeyError, ValueError):  # sizes that do not fit together
        return float("inf")


def _run(mixer: Mixer, scope: Scope, x: Tensor, scene: Scene) -> Tensor:
    return MIXERS[type(mixer)](mixer, scope, x, Setting(scene.config))


def _evidence(chosen: Mixer, error: float, others: list[tuple[float, Mixer]]) -> Iterable[Evidence]:
    own = chosen.model_dump(mode="json")
    told = [(rival_error, rival.model_dump(mode="json")) for rival_error, rival in others]
    for name, value in own.items():
        rival = next(((e, rival[name]) for e, rival in told if rival[name] != value), None)
        if name not in NOT_SHOWN and rival is not None:
            yield Evidence(
                path=name, value=value, max_error=error, runner_up=rival[1], runner_up_error=min(rival[0], 1e9)
            )


def _shown(mixer: Mixer) -> str:
    return ", ".join(f"{name}={value}" for name, value in mixer.model_dump(mode="json", exclude_defaults=True).items())[
        :160
    ]
