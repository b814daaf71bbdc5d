"""Finds the norm that made a tensor, by data flow and numbers."""

from dataclasses import dataclass

from autoadapter.artifacts.decoder import Norm
from autoadapter.probe.workers.fit.fitted import Fitted, UnexplainedError
from autoadapter.probe.workers.fit.norms import fit_norm
from autoadapter.probe.workers.fit.skeleton.flow import PRODUCTS, Cut, Flow, alike, plain
from autoadapter.probe.workers.fit.skeleton.terms import split
from autoadapter.probe.workers.scene import Scene
from autoadapter.probe.workers.trace import Seen

NORMALISERS = frozenset(
    "layer_norm rms_norm group_norm rsqrt sqrt norm linalg_vector_norm vector_norm normalize pow square var std".split()
)
LONGEST = 40
"""Events in the longest norm."""


@dataclass(frozen=True, eq=False)
class Normed:
    """`out` is `norm` of `source`."""

    source: Seen
    out: Seen
    norm: Fitted[Norm]


class Norms:
    """The norms of a scene, each looked for once."""

    def __init__(self, scene: Scene, flow: Flow) -> None:
        """`flow` is that of the scene's trace."""
        self.scene, self.flow = scene, flow
        self._known: dict[Seen, Normed | None] = {}

    def into(self, out: Seen, within: frozenset[Seen]) -> Normed | None:
        """The norm whose output this is, if it is one; looked for among the tensors of `within`."""
        out = self.flow.root(out)
        if out not in self._known:
            self._known[out] = None if split(self.flow, out) else self._search(out, within)
        return self._known[out]

    def _search(self, out: Seen, within: frozenset[Seen]) -> Normed | None:
        nearest: Normed | None = None
        for cut in self.flow.cuts(out, within):
            if not _may_be_norm(cut):
                return nearest
            if cut.seen is out or not alike(cut.seen, out) or not _normalises(cut):
                continue
            found = self._fitted(cut, out)
            if nearest is not None:
                centred = nearest.norm.value.kind == "rms" and found and found.norm.value.kind == "layer"
                return found if centred else nearest
            nearest = found
            if nearest is not None and nearest.norm.value.kind != "rms":
                return nearest
        return nearest

    def _fitted(self, cut: Cut, out: Seen) -> Normed | None:
        try:
            norm = fit_norm(self.scene, cut.seen.value.reshape(out.value.shape), out.value, cut.events)
        except UnexplainedError:
            return None
        return Normed(cut.seen, out, norm)


def _may_be_norm(cut: Cut) -> bool:
    return len(cut.events) <= LONGEST and not any(plain(event.name) in PRODUCTS for event in cut.events)


def _normalises(cut: Cut) -> bool:
    return any(plain(event.name) in NORMALISERS for event in cut.events)
