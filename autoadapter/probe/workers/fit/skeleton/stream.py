"""The residual stream of one layer: its states, and what joins it between them."""

from dataclasses import dataclass

from autoadapter.probe.workers.fit.fitted import UnexplainedError
from autoadapter.probe.workers.fit.skeleton.flow import Cut, alike
from autoadapter.probe.workers.fit.skeleton.mixing import mixes_tokens
from autoadapter.probe.workers.fit.skeleton.normal import Normed, Norms
from autoadapter.probe.workers.fit.skeleton.terms import Term, expand, split, unscale
from autoadapter.probe.workers.scene import Scene
from autoadapter.probe.workers.trace import Call, Seen


@dataclass(frozen=True, eq=False)
class Reading:
    """How a branch's output hangs on the stream: `x` = scale · norm(`state`)."""

    state: Seen
    x: Seen
    norm: Normed | None
    scale: Term


@dataclass(frozen=True, eq=False)
class Leaf:
    """A branch's output as it joins the stream, times `term.factor`."""

    term: Term
    reading: Reading
    mixes: bool


@dataclass(frozen=True, eq=False)
class Step:
    """`state` = norm(`before.factor` · `before.seen` + leaves); either the norm or the leaves."""

    state: Seen
    before: Term
    leaves: tuple[Leaf, ...]
    norm: Normed | None = None


class Stream:
    """Reads the data flow of one layer from its output back to its input."""

    def __init__(self, scene: Scene, norms: Norms, call: Call, ends: tuple[Seen, Seen]) -> None:
        """`ends`: the hidden states that the layer is given and returns."""
        self.scene, self.norms, self.flow, self.call = scene, norms, norms.flow, call
        self.start, self.end = (self.flow.root(seen) for seen in ends)
        if self.start.value.numel() != scene.ids.numel() * self.start.value.shape[-1]:
            raise self.refusal(f"its residual stream is no row per token: {list(self.start.value.shape)}")
        self.last = max(call.last, (self.end.event or 0) + 1)
        self.within = self.flow.after(self.start, self.last)
        self.states: set[Seen] = {self.start}
        self._visited: dict[Seen, bool] = {self.start: True}
        self._readings: dict[Seen, Reading] = {}
        self._mixing: dict[Seen, bool] = {}
        self._carries(self.end)

    def steps(self) -> list[Step]:
        """From the layer's input to its output.

        Raises:
            UnexplainedError: the output is no chain of sums and norms over the input.
        """
        anchors = self._anchors()
        found, current = [], self.end
        while current is not self.start:
            step = self._step(current, anchors - {current})
            found.append(step)
            current = step.before.seen
        return found[::-1]

    def reading(self, seen: Seen) -> Reading:
        """What a branch's output was computed from."""
        if seen not in self._readings:
            self._readings[seen] = self._read(seen)
        return self._readings[seen]

    def refusal(self, why: str) -> UnexplainedError:
        """The error that names this layer."""
        return UnexplainedError(self.call.path, (), why)

    def _carries(self, seen: Seen) -> bool:
        """Whether the residual stream itself passes through this tensor; notes it as a state then."""
        if seen not in self._visited:
            self._visited[seen] = False
            parts = [term.seen for term in split(self.flow, seen) if term.seen in self.within]
            if not parts:
                norm = self.norms.into(seen, self.within)
                parts = [norm.source] if norm else []
            if any([self._carries(part) for part in parts]):
                self._visited[seen] = True
                self.states.add(seen)
        return self._visited[seen]

    def _anchors(self) -> frozenset[Seen]:
        """The states that mean something: the ends, what branches read, what norms make."""
        kept = {self.start}
        for state in self.states:
            if self.norms.into(state, self.within) and state is not self.start:
                kept.add(state)
            for term in expand(self.flow, state, lambda seen: seen in self.states):
                if term.seen not in self.states and term.seen in self.within:
                    kept.update(self.reading(leaf).state for leaf in self._apart(term.seen))
        return frozenset(kept)

    def _step(self, state: Seen, anchors: frozenset[Seen]) -> Step:
        norm = self.norms.into(state, self.within)
        if norm is not None:
            return Step(state, Term(1.0, norm.source), (), norm)
        terms = expand(self.flow, state, lambda seen: seen in anchors or self._together(seen))
        before = [term for term in terms if term.seen in self.states]
        if len(before) != 1:
            raise self.refusal(f"{len(before)} states of the residual stream meet in one sum")
        others = [term for term in terms if term.seen not in self.states]
        if any(term.seen not in self.within for term in others):
            raise self.refusal("adds a tensor that does not depend on the hidden states")
        leaves = [Leaf(term, self.reading(term.seen), self._mixes(term.seen)) for term in others]
        if not leaves and before[0].factor == 1 and not before[0].scaled:
            raise self.refusal("no branch joins the residual stream")
        return Step(state, before[0], tuple(leaves))

    def _together(self, seen: Seen) -> bool:
        """Whether a sum is the output of one block: shared and routed experts, say."""
        if seen in self.states or unscale(self.flow, seen).scaled:
            return False
        leaves = self._apart(seen)
        if len(leaves) < 2:
            return True
        if len({self.reading(leaf).x for leaf in leaves}) != 1:
            return False
        return not any(self._mixes(leaf) for leaf in leaves) or self._dependent(leaves)

    def _dependent(self, leaves: list[Seen]) -> bool:
        last = leaves[-1]
        return all(last in self.flow.after(leaf, self.last) for leaf in leaves[:-1])

    def _apart(self, seen: Seen) -> list[Seen]:
        terms = expand(self.flow, seen, lambda part: part in self.states)
        return [term.seen for term in terms if term.seen in self.within and term.seen not in self.states]

    def _mixes(self, seen: Seen) -> bool:
        if seen not in self._mixing:
            self._mixing[seen] = mixes_tokens(self.scene, self.flow, self.call, self.reading(seen).x, seen)
        return self._mixing[seen]

    def _read(self, seen: Seen) -> Reading:
        passed: list[Cut] = []
        for cut in self.flow.cuts(seen, self.within):
            if alike(cut.seen, self.start) and cut.seen is not seen:
                passed.append(cut)
                if cut.seen in self.states:
                    break
        if not passed or passed[-1].seen not in self.states:
            raise self.refusal("a branch reads more than one state of the residual stream")
        state = passed[-1].seen
        for cut in passed:
            reading = self._explained(state, cut.seen)
            if reading is not None:
                return reading
        raise self.refusal("the way from the residual stream to a branch is not explained")

    def _explained(self, state: Seen, x: Seen) -> Reading | None:
        scale = unscale(self.flow, x)
        if scale.seen is state:
            return Reading(state, x, None, scale)
        norm = self.norms.into(scale.seen, self.within)
        return Reading(state, x, norm, scale) if norm is not None and norm.source is state else None
