"""Fits what treats each token alone: an MLP, a mixture of experts, or a block carried over as it is."""

from autoadapter.artifacts.decoder import Mlp, Moe, Opaque
from autoadapter.probe.workers.fit.feed_forward.dense import fit_mlp
from autoadapter.probe.workers.fit.feed_forward.moe import fit_moe
from autoadapter.probe.workers.fit.feed_forward.opaque import carry_over
from autoadapter.probe.workers.fit.feed_forward.products import products
from autoadapter.probe.workers.fit.fitted import Fitted, UnexplainedError
from autoadapter.probe.workers.scene import Block, Scene

__all__ = ["fit_feed_forward"]


def fit_feed_forward(scene: Scene, block: Block) -> Fitted[Mlp] | Fitted[Moe] | Fitted[Opaque]:
    """What a block that treats each token alone computes.

    Raises:
        UnexplainedError: no candidate reproduces it, and it is not one module that can be carried over.
    """
    found = products(scene, block.events)
    try:
        return fit_moe(scene, block, found) or fit_mlp(scene, block, found)
    except UnexplainedError as cause:
        return carry_over(scene, block, cause)
