"""Carries a block over as it is."""

import torch

from autoadapter.artifacts.decoder import Opaque
from autoadapter.probe.workers.fit.feed_forward.gating import ROUNDING, relative
from autoadapter.probe.workers.fit.fitted import Fitted, ParameterUse, UnexplainedError
from autoadapter.probe.workers.scene import Block, Scene


def carry_over(scene: Scene, block: Block, cause: UnexplainedError) -> Fitted[Opaque]:
    """The block as the one module that it is.

    Args:
        scene: the reference.
        block: what nothing explains.
        cause: why; raised again when the block cannot be carried over.

    Raises:
        UnexplainedError: the block mixes tokens, or is not the call of one module with x alone.
    """
    error = float("inf") if block.mixes_tokens else _error(scene, block)
    if error > ROUNDING:
        raise cause
    module = scene.model.get_submodule(block.module)
    uses = tuple(ParameterUse(f"{block.module}.{name}", (name,)) for name in module.state_dict())
    return Fitted(Opaque(module=block.module, class_name=type(module).__name__), error, (), uses)


def _error(scene: Scene, block: Block) -> float:
    """Of the module called with x alone."""
    if block.module in ("", scene.layers[block.layer] if scene.layers else ""):
        return float("inf")
    if not any(block.y in call.outs for call in scene.trace.calls_of(block.module)):
        return float("inf")
    try:
        with torch.no_grad():
            made = scene.model.get_submodule(block.module)(block.x.value)
    except (TypeError, RuntimeError, ValueError, AttributeError):  # it takes more than x
        return float("inf")
    made = made[0] if isinstance(made, tuple) else made
    return relative(made.reshape(block.y.value.shape), block.y.value)
