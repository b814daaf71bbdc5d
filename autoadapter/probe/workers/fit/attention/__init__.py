"""Fits a block that mixes tokens by softmax attention."""

from autoadapter.artifacts.decoder import Attention, LatentAttention
from autoadapter.probe.workers.fit.attention.assemble import fit_softmax
from autoadapter.probe.workers.fit.attention.chain import walk
from autoadapter.probe.workers.fit.attention.check import checked
from autoadapter.probe.workers.fit.attention.core import find_core
from autoadapter.probe.workers.fit.attention.latent import fit_latent
from autoadapter.probe.workers.fit.attention.output import fit_output
from autoadapter.probe.workers.fit.attention.rivals import rivals
from autoadapter.probe.workers.fit.attention.scores import fit_scores
from autoadapter.probe.workers.fit.fitted import Fitted
from autoadapter.probe.workers.scene import Block, Scene


def fit_attention(scene: Scene, block: Block) -> Fitted[Attention | LatentAttention]:
    """Explain an attention block by the data flow and the numbers of its trace.

    Raises:
        UnexplainedError: a step of it is none of the candidates, or recomputing it from the fit gives something else.
    """
    core = find_core(scene, block)
    scores = fit_scores(core, block.module)
    output = fit_output(scene, block, core)
    values = walk(scene, block, core.v.seen, core.v.index)
    fit = fit_softmax if values.reads(block.x) else fit_latent
    spec, uses = fit(scene, block, core, scores, output)
    return checked(scene, block, spec, uses, rivals(spec))


__all__ = ["fit_attention"]
