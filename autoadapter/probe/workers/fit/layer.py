"""Fits one layer: its skeleton, and each block by what kind of block it is."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from autoadapter.artifacts.decoder import Branch, Evidence, LayerKind
from autoadapter.probe.workers.fit.attention import fit_attention
from autoadapter.probe.workers.fit.feed_forward import fit_feed_forward
from autoadapter.probe.workers.fit.fitted import Fitted, ParameterUse, UnexplainedError
from autoadapter.probe.workers.fit.recurrent import fit_recurrent
from autoadapter.probe.workers.fit.skeleton import layer_blocks
from autoadapter.probe.workers.replay.layers import layer_output
from autoadapter.probe.workers.replay.scope import Scope, Setting
from autoadapter.probe.workers.scene import Block, Scene
from autoadapter.probe.workers.weights.cutting import parameters_of

MIXING: tuple[Callable[[Scene, Block], Fitted[Any]], ...] = (fit_attention, fit_recurrent)
"""Fitters of blocks that mix tokens, tried in turn."""


@dataclass(frozen=True)
class FittedLayer:
    """What one layer computes; paths of the evidence are relative to its kind, targets are the spec's names."""

    branches: tuple[Branch, ...]
    evidence: tuple[Evidence, ...]
    uses: tuple[ParameterUse, ...]


def fit_layer(scene: Scene, layer: int) -> FittedLayer:
    """One layer from nothing.

    Raises:
        UnexplainedError: its wiring or one of its blocks fits no candidate.
    """
    branches, evidence, uses = [], [], []
    for index, bones in enumerate(layer_blocks(scene, layer).branches):
        mixer = _fit_block(scene, bones.block)
        branches.append(bones.branch(mixer.value))
        evidence += [_below(f"branches.{index}", seen) for seen in bones.evidence]
        evidence += [_below(f"branches.{index}.mixer", seen) for seen in mixer.evidence]
        prefix = f"layers.{layer}.{index}."
        uses += [replace(use, targets=tuple(prefix + t for t in use.targets)) for use in (*bones.uses, *mixer.uses)]
    return FittedLayer(tuple(branches), tuple(evidence), tuple(uses))


def moved(scene: Scene, fitted: FittedLayer, origin: int, layer: int) -> FittedLayer | None:
    """The same layer elsewhere: its parameters found at the same places of the other layer's module.

    None when the other layer has no such parameters.
    """
    before, after = f"{scene.layers[origin]}.", f"{scene.layers[layer]}."
    uses = []
    for use in fitted.uses:
        name = after + use.parameter.removeprefix(before) if use.parameter.startswith(before) else use.parameter
        targets = tuple(t.replace(f"layers.{origin}.", f"layers.{layer}.", 1) for t in use.targets)
        uses.append(replace(use, parameter=name, targets=targets))
    own = held(scene)
    same = all(
        u.parameter in own and own[u.parameter].shape == own[o.parameter].shape
        for u, o in zip(uses, fitted.uses, strict=True)
    )
    return replace(fitted, uses=tuple(uses)) if same else None


def layer_error(scene: Scene, fitted: FittedLayer, layer: int, x: Tensor, y: Tensor) -> float:
    """Largest error of the replayed layer relative to its largest output.

    Args:
        scene: the reference.
        fitted: what the layer is said to compute.
        layer: its number.
        x: its input [tokens, hidden].
        y: its output [tokens, hidden].
    """
    kind = LayerKind(name="layer", branches=fitted.branches)
    parameters = parameters_of([kind] * len(scene.layers), held(scene), fitted.uses)
    own = Scope(parameters, f"layers.{layer}.")
    made = layer_output(kind, own, x, Setting(scene.config, scene.model))
    return float((made - y).abs().max() / y.abs().max())


def held(scene: Scene) -> dict[str, Tensor]:
    """The reference's parameters and buffers by name, shared ones under each of their names."""
    buffers = dict(scene.model.named_buffers(remove_duplicate=False))
    return buffers | dict(scene.model.named_parameters(remove_duplicate=False))


def _fit_block(scene: Scene, block: Block) -> Fitted[Any]:
    if not block.mixes_tokens:
        return fit_feed_forward(scene, block)
    errors = []
    for fit in MIXING:
        try:
            return fit(scene, block)
        except UnexplainedError as error:
            errors.append(error)
    raise min(errors, key=lambda error: error.candidates[0][1] if error.candidates else float("inf"))


def _below(path: str, evidence: Evidence) -> Evidence:
    return evidence.model_copy(update={"path": f"{path}.{evidence.path}"})
