"""Where a tensor came from: the data flow of a trace, with what changes nothing left out."""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch

from autoadapter.probe.workers.trace import Event, Seen, Trace

PRODUCTS = frozenset(
    "linear matmul mm bmm addmm baddbmm einsum conv1d conv2d embedding scaled_dot_product_attention softmax cumsum "
    "grouped_mm _grouped_mm tensordot bilinear topk sort".split()
)
"""Calls that no norm, scale or residual contains."""
SUMS = frozenset({"add", "sub", "subtract"})
SCALES = frozenset({"mul", "multiply", "div", "divide", "truediv", "true_divide"})


def plain(name: str) -> str:
    """`__iadd__`, `add_`, `__radd__` and `add` are one operation: its name without the dress."""
    bare = name.strip("_")
    return bare[1:] if name.startswith("__") and bare[1:] in SUMS | SCALES else bare


@dataclass(frozen=True, eq=False)
class Cut:
    """A tensor through which alone a later one depends on what a search began from."""

    seen: Seen
    events: tuple[Event, ...]
    """What happened between the two, in order, with helpers made from parameters alone."""


class Flow:
    """The data flow of one trace. Tensors are named by their root: the first one that holds the same elements."""

    def __init__(self, trace: Trace) -> None:
        """Find the roots; every event is looked at once."""
        self.trace = trace
        self._parameters = dict(trace.model.named_parameters())
        self.learned = frozenset(self._parameters)
        self._roots: dict[Seen, Seen] = {}
        self._others: dict[Seen, list[Seen]] = {}
        for event in trace.events:
            for out in event.outs:
                same = self._unchanged(event, out)
                if same is not None:
                    self._roots[out] = self.root(same)
                    self._others.setdefault(self.root(same), []).append(out)

    def parameter(self, name: str) -> torch.Tensor:
        """A parameter or buffer by its name in the model."""
        held = self._parameters.get(name)
        return (self.trace.model.get_buffer(name) if held is None else held).detach()

    def root(self, seen: Seen) -> Seen:
        """The first tensor with the same elements in the same order, whatever its shape."""
        return self._roots.get(seen, seen)

    def as_rows(self, seen: Seen) -> Seen:
        """The first tensor with these elements that is [1, tokens, width]; the root where none is."""
        same = [self.root(seen), *self._others.get(self.root(seen), [])]
        return next(
            (one for one in same if one.value.ndim == 3 and one.value.shape[-1] == seen.value.shape[-1]), same[0]
        )

    def maker(self, seen: Seen) -> Event | None:
        """The event that made the root of a tensor."""
        return self.trace.maker(self.root(seen))

    def ins(self, event: Event) -> tuple[Seen, ...]:
        """Roots of the tensors whose elements an event used, without repetition."""
        name = plain(event.name)
        used = () if name.endswith("_like") or name.startswith("new_") else event.ins
        return tuple(dict.fromkeys(self.root(seen) for seen in (used[:1] if name.endswith("_as") else used)))

    def after(self, source: Seen, last: int) -> frozenset[Seen]:
        """The roots that depend on `source`, itself included, among those made before event `last`."""
        source = self.root(source)
        reached = {source}
        for event in self.trace.events[(source.event if source.event is not None else -1) + 1 : last]:
            if any(seen in reached for seen in self.ins(event)):
                reached.update(self.root(out) for out in event.outs)
        return frozenset(reached)

    def cuts(self, target: Seen, within: frozenset[Seen]) -> Iterator[Cut]:
        """Single tensors of `within` through which `target` depends on its source, nearest first; first itself."""
        target = self.root(target)
        queue, known, passed = [(-_age(target), id(target), target)], {target}, []
        while queue:
            seen = heapq.heappop(queue)[2]
            if not queue:
                yield Cut(seen, self._with_helpers(passed, within))
            event = self.trace.maker(seen)
            if event is None:
                continue
            if event not in passed:
                passed.append(event)
            for source in self.ins(event):
                if source in within and source not in known:
                    known.add(source)
                    heapq.heappush(queue, (-_age(source), id(source), source))

    def between(self, source: Seen, target: Seen) -> tuple[Event, ...]:
        """The events that lead from one tensor to another, in order."""
        target = self.root(target)
        last = 0 if target.event is None else target.event + 1
        within = self.after(source, last)
        wanted, kept = {target}, []
        for event in reversed(self.trace.events[:last]):
            outs = {self.root(out) for out in event.outs}
            if not outs & wanted or self.root(source) in outs or not any(seen in within for seen in self.ins(event)):
                continue
            kept.append(event)
            wanted.update(seen for seen in self.ins(event) if seen in within)
        return tuple(reversed(kept))

    def number(self, arg: object) -> float | None:
        """A factor that is the same for every element, token and weight; None for anything else."""
        if isinstance(arg, Seen):
            arg = self.root(arg)
            fixed = arg.value.numel() == 1 and arg.value.is_floating_point() and arg.parameter not in self.learned
            return arg.value.item() if fixed else None
        return float(arg) if isinstance(arg, int | float) and not isinstance(arg, bool) else None

    def _unchanged(self, event: Event, out: Seen) -> Seen | None:
        if plain(event.name) in SUMS | SCALES and any(self.number(arg) for arg in event.args):  # be it lost in rounding
            return None
        for seen in event.ins:
            if seen.parameter is None and same_elements(seen.value, out.value):
                return seen
        return None

    def _with_helpers(self, passed: Sequence[Event], within: frozenset[Seen]) -> tuple[Event, ...]:
        found = list(passed)
        for event in found:
            for seen in event.ins:
                maker = self.trace.maker(seen)
                if maker is not None and self.root(seen) not in within and seen.value.ndim <= 2 and maker not in found:
                    found.append(maker)
        return tuple(sorted(found, key=lambda event: event.index))


@lru_cache(maxsize=2)
def flow_of(trace: Trace) -> Flow:
    """The flow of a trace, computed once."""
    return Flow(trace)


def same_elements(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two tensors hold the same numbers in the same order."""
    if first.numel() != second.numel() or first.numel() == 0 or first.dtype != second.dtype:
        return False
    return bool(torch.equal(first.reshape(-1), second.reshape(-1)))


def alike(first: Seen, second: Seen) -> bool:
    """Whether two tensors hold as many elements in rows of one width: [1, tokens, hidden] and [tokens, hidden] do."""
    return first.value.numel() == second.value.numel() and first.value.shape[-1:] == second.value.shape[-1:]


def enclosing(trace: Trace, events: Sequence[Event], otherwise: str) -> str:
    """Path of the smallest module within one call of which all events happened."""
    if not events:
        return otherwise
    first, last = events[0].index, events[-1].index
    around = [call for call in trace.calls if call.first <= first and last < call.last]
    return min(around, key=lambda call: call.last - call.first).path if around else otherwise


def _age(seen: Seen) -> int:
    return -1 if seen.event is None else seen.event
