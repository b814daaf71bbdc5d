"""Fits blocks that carry a state from token to token."""

from autoadapter.artifacts.decoder import GatedDeltaNet, Mamba2, ShortConv
from autoadapter.probe.workers.fit.fitted import Fitted, UnexplainedError
from autoadapter.probe.workers.fit.recurrent.delta_net import fit_delta_net
from autoadapter.probe.workers.fit.recurrent.mamba2 import fit_mamba2
from autoadapter.probe.workers.fit.recurrent.short_conv import fit_short_conv
from autoadapter.probe.workers.scene import Block, Scene

KINDS = (fit_short_conv, fit_mamba2, fit_delta_net)


def fit_recurrent(scene: Scene, block: Block) -> Fitted[Mamba2 | ShortConv | GatedDeltaNet]:
    """Explain a block with a state as one of the kinds.

    Raises:
        UnexplainedError: it is none of them.
    """
    errors = []
    for fit in KINDS:
        try:
            return fit(scene, block)
        except UnexplainedError as error:
            errors.append(error)
    near = sorted((near for error in errors for near in error.candidates), key=lambda pair: pair[1])
    raise UnexplainedError(block.module, tuple(near[:3]), "; ".join(dict.fromkeys(error.why for error in errors)))


__all__ = ["fit_recurrent"]
