"""Puts a layer together again from what was found, in float64: the proof of its wiring."""

from collections.abc import Sequence

import torch

from autoadapter.artifacts.decoder import Norm, Value
from autoadapter.probe.workers.fit.norms import ROUNDING, apply_norm
from autoadapter.probe.workers.fit.skeleton.parts import BranchSkeleton
from autoadapter.probe.workers.fit.skeleton.stream import Stream
from autoadapter.probe.workers.scene import Scene


def recompose(scene: Scene, stream: Stream, branches: Sequence[BranchSkeleton]) -> float:
    """Relative error of the layer's output put together from the outputs of its blocks, in float64."""
    start = stream.start.value.double()
    state, normed = start, []
    for branch in branches:
        source = state if branch.reads == "stream" else start
        if branch.shares_norm_with is not None:
            n = normed[branch.shares_norm_with]
        else:
            n = _applied(scene, branch, "input_norm", source)
        normed.append(n)
        y = _applied(scene, branch, "output_norm", branch.block.y.value.double().reshape(state.shape))
        state = _times(branch.stream_scale) * (n if branch.keeps_normed else state) + _times(branch.output_scale) * y
        state = _applied(scene, branch, "post_norm", state)
        error_in = float((n * _times(branch.input_scale) - branch.block.x.value.double().reshape(n.shape)).abs().max())
        if error_in > ROUNDING * float(n.abs().max()):
            raise stream.refusal(f"the input of {branch.block.module} recomposed is off by {error_in:.1e}")
    wanted = stream.end.value.double().reshape(state.shape)
    return float((state - wanted).abs().max() / wanted.abs().max())


def _times(value: Value | None) -> float:
    return 1.0 if value is None else float(value.number)


def _applied(scene: Scene, branch: BranchSkeleton, place: str, x: torch.Tensor) -> torch.Tensor:
    norm: Norm | None = getattr(branch, place)
    if norm is None:
        return x
    held = {use.targets[0]: scene.parameter(use.parameter).detach().double() for use in branch.uses}
    return apply_norm(norm, x, held.get(f"{place}.weight"), held.get(f"{place}.bias"))
