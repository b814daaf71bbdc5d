"""Fits the two ends of a decoder."""

from autoadapter.probe.workers.fit.skeleton.embedding import fit_embedding
from autoadapter.probe.workers.fit.skeleton.flow import flow_of
from autoadapter.probe.workers.fit.skeleton.head import fit_head
from autoadapter.probe.workers.fit.skeleton.normal import Norms
from autoadapter.probe.workers.fit.skeleton.parts import Ends
from autoadapter.probe.workers.scene import Scene


def fit_ends(scene: Scene) -> Ends:
    """Embedding, final norm and head.

    Raises:
        UnexplainedError: one of them fits no candidate.
    """
    norms = Norms(scene, flow_of(scene.trace))
    embedding = fit_embedding(scene, norms)
    table = next(use.parameter for use in embedding.uses if use.targets == ("embed.weight",))
    norm, head = fit_head(scene, norms, table)
    return Ends(embedding, norm, head)
