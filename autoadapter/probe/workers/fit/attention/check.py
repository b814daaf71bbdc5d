"""Recomputes a fitted block, and says what every fitted value is worth: the error with its runner-up."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from autoadapter.artifacts.decoder import (
    Attention,
    Branch,
    Evidence,
    GatedDeltaNet,
    LatentAttention,
    LayerKind,
    Mamba2,
    ShortConv,
)
from autoadapter.probe.workers.fit.attention.flow import relative
from autoadapter.probe.workers.fit.attention.rivals import Rival
from autoadapter.probe.workers.fit.fitted import Fitted, ParameterUse, UnexplainedError
from autoadapter.probe.workers.replay.attention import attention
from autoadapter.probe.workers.replay.latent import latent_attention
from autoadapter.probe.workers.replay.recurrent import gated_delta_net, mamba2, short_conv
from autoadapter.probe.workers.replay.scope import Scope, Setting
from autoadapter.probe.workers.scene import Block, Scene
from autoadapter.probe.workers.weights.cutting import parameters_of

EXACT = 5e-5
"""Relative error up to which a recomputed block is the block."""
OFF = 1e9
"""The error of a candidate that cannot be computed: the parameters do not fit it."""
PREFIX = "layers.0.0."

Spec = Attention | LatentAttention | Mamba2 | ShortConv | GatedDeltaNet
COMPUTED: dict[type, Callable[..., Tensor]] = {
    Attention: attention,
    LatentAttention: latent_attention,
    Mamba2: mamba2,
    ShortConv: short_conv,
    GatedDeltaNet: gated_delta_net,
}


def checked(
    scene: Scene, block: Block, spec: Spec, uses: tuple[ParameterUse, ...], rivals: Iterable[Rival]
) -> Fitted[Spec]:
    """The fit with its evidence: what each of the rivals, (path, value in JSON form), makes of the block.

    Raises:
        UnexplainedError: the recomputed block is another.
    """
    error, others = error_of(scene, block, spec, uses), list(rivals)
    own = error(spec)
    if own > EXACT:
        tried = [(f"{path} = {value}", error(_with(spec, path, value))) for path, value in others]
        tried.sort(key=lambda pair: pair[1])
        why = f"the block recomputed differs by {own:.1e}"
        raise UnexplainedError(block.module, (("as fitted", own), *tried[:3]), why)
    return Fitted(spec, own, tuple(_evidence(spec, own, error, others)), uses)


def error_of(scene: Scene, block: Block, spec: Spec, uses: tuple[ParameterUse, ...]) -> Callable[[Spec], float]:
    """Says of a candidate how far the block computed with it is off, relative to its largest element.

    `spec` has the sizes by which fused parameters are cut.
    """
    given, tokens = _parameters(scene, spec, uses), scene.ids.shape[1]
    x, y = (seen.value.float().reshape(tokens, -1) for seen in (block.x, block.y))

    def error(candidate: Spec) -> float:
        try:
            return min(relative(_computed(candidate, given, x, scene.config), y), OFF)
        except (RuntimeError, ValueError, KeyError):
            return OFF

    return error


def _parameters(scene: Scene, spec: Spec, uses: tuple[ParameterUse, ...]) -> Mapping[str, Tensor]:
    kind = LayerKind(name="block", branches=(Branch(mixer=spec),))
    named = [replace(use, targets=tuple(PREFIX + target for target in use.targets)) for use in uses]
    held = {use.parameter: scene.parameter(use.parameter).detach().float() for use in uses}
    return parameters_of([kind], held, named)


def _computed(spec: Spec, given: Mapping[str, Tensor], x: Tensor, config: Any) -> Tensor:
    return COMPUTED[type(spec)](spec, Scope(given, PREFIX), x, Setting(config))


def _with(spec: Spec, path: str, value: Any) -> Spec:
    document = spec.model_dump(mode="json")
    *parents, last = path.split(".")
    node = document
    for part in parents:
        node = node[part]
    node[last] = value
    return type(spec).model_validate(document)


def _evidence(spec: Spec, own: float, error: Callable[[Spec], float], others: list[Rival]) -> list[Evidence]:
    """For every path the runner-up that comes nearest."""
    document, found = spec.model_dump(mode="json"), {}
    for path, value in others:
        other = error(_with(spec, path, value))
        if path in found and found[path].runner_up_error <= other:
            continue
        node: Any = document
        for part in path.split("."):
            node = node[part]
        found[path] = Evidence(path=path, value=node, max_error=own, runner_up=value, runner_up_error=other)
    return list(found.values())
