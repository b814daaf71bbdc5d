"""Fits all layers: each is either one of the kinds seen before, shown by replaying it, or a new kind."""

from dataclasses import dataclass

import torch
from torch import Tensor

from autoadapter.artifacts.decoder import Evidence, LayerKind, LayerPattern
from autoadapter.probe.workers.fit.fitted import ParameterUse, UnexplainedError
from autoadapter.probe.workers.fit.kinds import named_kinds, same_kind
from autoadapter.probe.workers.fit.layer import FittedLayer, fit_layer, layer_error, moved
from autoadapter.probe.workers.fit.pattern import fit_pattern
from autoadapter.probe.workers.fit.skeleton.branches import hidden_ends
from autoadapter.probe.workers.scene import Scene

EXPLAINED = 1e-4
"""Relative error of a replayed layer above which its fit is wrong; float32 rounding stays far below."""


@dataclass(frozen=True)
class FittedLayers:
    """Kinds, which layer is of which, evidence with paths from the spec's root, parameters under the spec's names."""

    kinds: tuple[LayerKind, ...]
    pattern: LayerPattern
    evidence: tuple[Evidence, ...]
    uses: tuple[ParameterUse, ...]


@dataclass(frozen=True)
class _Kind:
    layer: int
    fitted: FittedLayer


@torch.no_grad()
def fit_layers(scene: Scene) -> FittedLayers:
    """All layers, each replayed on its own input.

    Raises:
        UnexplainedError: a layer fits nothing, or what was fitted does not reproduce it.
    """
    kinds: list[_Kind] = []
    chosen: list[int] = []
    uses: list[ParameterUse] = []
    for layer in range(len(scene.layers)):
        index, fitted = _known(scene, kinds, layer) or _new(scene, kinds, layer)
        chosen.append(index)
        uses += fitted.uses
    named = named_kinds([kind.fitted.branches for kind in kinds])
    evidence = [
        seen.model_copy(update={"path": f"kinds.{index}.{seen.path}"})
        for index, kind in enumerate(kinds)
        for seen in kind.fitted.evidence
    ]
    return FittedLayers(named, fit_pattern(scene.config, tuple(chosen)), tuple(evidence), tuple(uses))


def layer_ends(scene: Scene, layer: int) -> tuple[Tensor, Tensor]:
    """What a layer was given and what it returned, both [tokens, hidden]."""
    given, returned = hidden_ends(scene, layer)
    width = returned.value.shape[-1]
    return given.value.reshape(-1, width), returned.value.reshape(-1, width)


def _known(scene: Scene, kinds: list[_Kind], layer: int) -> tuple[int, FittedLayer] | None:
    x, y = layer_ends(scene, layer)
    for index, kind in enumerate(kinds):
        fitted = moved(scene, kind.fitted, kind.layer, layer)
        if fitted is not None and layer_error(scene, fitted, layer, x, y) <= EXPLAINED:
            return index, fitted
    return None


def _new(scene: Scene, kinds: list[_Kind], layer: int) -> tuple[int, FittedLayer]:
    fitted = fit_layer(scene, layer)
    error = layer_error(scene, fitted, layer, *layer_ends(scene, layer))
    if not error <= EXPLAINED:
        raise UnexplainedError(
            scene.layers[layer], (("fitted", error),), "the fitted layer replayed gives another output"
        )
    for index, kind in enumerate(kinds):
        if same_kind(kind.fitted.branches, fitted.branches):
            return index, fitted
    kinds.append(_Kind(layer, fitted))
    return len(kinds) - 1, fitted
