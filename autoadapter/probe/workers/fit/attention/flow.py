"""Data flow of a block: which tensors every path passes, and which element of one lies where in another.

Heads and features are told apart by value: a feature is the column of its values over all tokens, so it is found
again after any reshape, split or transposition.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

import torch

from autoadapter.probe.workers.trace import Event, Seen, Trace

MOVES = frozenset(
    "view view_as reshape reshape_as transpose permute contiguous clone to float type type_as flatten unflatten split"
    " split_with_sizes tensor_split chunk unbind __getitem__ getitem narrow select slice index_select squeeze unsqueeze"
    " expand expand_as repeat repeat_interleave broadcast_to cat concat concatenate stack hstack vstack swapaxes"
    " swapdims movedim moveaxis dropout t detach __get__ view_as_real view_as_complex roll copy_ __setitem__"
    " alias double tile T mT H mH".split()
)
"""Calls that move values and change none."""

PRODUCTS = frozenset("linear matmul mm bmm baddbmm addmm addbmm einsum __matmul__ __rmatmul__ tensordot".split())


SHAPED = frozenset("new_empty new_zeros new_ones new_full zeros_like ones_like empty_like full_like".split())
"""Calls that take no value from their argument."""
LIKE = frozenset("type_as expand_as view_as reshape_as to".split())
"""Calls that take values from their first argument alone."""


def feeding(event: Event) -> tuple[Seen, ...]:
    """The tensors whose values a call uses."""
    if event.name in SHAPED:
        return ()
    return event.ins[:1] if event.name in LIKE else event.ins


def waypoints(trace: Trace, source: Seen, target: Seen) -> tuple[Seen, ...]:
    """The tensors that every path from `source` to `target` passes, both ends included; none without a path."""
    order = [seen for seen in _ancestors(trace, source, target)]
    if not order or order[0] is not source:
        return ()
    known = set(order)
    fed: dict[Seen, list[Seen]] = {
        node: [seen for seen in feeding(trace.events[node.event]) if seen in known]
        for node in order
        if node is not source and node.event is not None
    }
    down = {source: 1}
    for node in order[1:]:
        down[node] = sum(down.get(before, 0) for before in fed[node])
    up: dict[Seen, int] = defaultdict(int, {target: 1})
    for node in reversed(order[1:]):
        for before in fed[node]:
            up[before] += up[node]
    return tuple(node for node in order if down[node] and down[node] * up[node] == down[target])


def between(trace: Trace, first: Seen, last: Seen) -> tuple[Event, ...]:
    """The calls on the paths from one tensor to another, in order."""
    nodes = _ancestors(trace, first, last)
    indices = sorted({node.event for node in nodes if node is not first and node.event is not None})
    return tuple(trace.events[index] for index in indices)


def spanned(trace: Trace, first: Seen, last: Seen) -> tuple[Event, ...]:
    """The calls from one tensor to another together with those that prepared what they use besides."""
    start = -1 if first.event is None else first.event
    found = {event.index for event in between(trace, first, last)}
    waiting = list(found)
    while waiting:
        for seen in trace.events[waiting.pop()].ins:
            if seen is not first and seen.event is not None and seen.event > start and seen.event not in found:
                found.add(seen.event)
                waiting.append(seen.event)
    return tuple(trace.events[index] for index in sorted(found))


def _ancestors(trace: Trace, source: Seen, target: Seen) -> list[Seen]:
    """What lies on a path from source to target, in order of making, source first; empty when there is no path."""
    found: set[Seen] = {target}
    waiting = [target]
    while waiting:
        node = waiting.pop()
        if node is source or node.event is None:
            continue
        for before in feeding(trace.events[node.event]):
            if before not in found and (source.event is None or before is source or _after(before, source)):
                found.add(before)
                waiting.append(before)
    if source not in found:
        return []
    reached = {source}
    ordered = sorted(
        (node for node in found if node is not source and node.event is not None), key=lambda node: node.event or 0
    )
    for node in ordered:
        if any(before in reached for before in feeding(trace.events[node.event or 0])):
            reached.add(node)
    return [source, *(node for node in ordered if node in reached)] if target in reached else []


def _after(node: Seen, source: Seen) -> bool:
    return node.event is not None and source.event is not None and node.event >= source.event


def users(events: Iterable[Event], seen: Seen) -> Iterator[Event]:
    """The calls that take a tensor."""
    return (event for event in events if seen in event.ins)


def token_axis(value: torch.Tensor, tokens: int) -> int | None:
    """The axis that counts tokens; the first of that length."""
    return next((axis for axis, size in enumerate(value.shape) if size == tokens), None)


def columns(value: torch.Tensor, tokens: int) -> torch.Tensor | None:
    """[tokens, features]: the token axis first, all others flattened in order; None where no axis counts tokens."""
    value = torch.view_as_real(value) if value.is_complex() else value
    axis = token_axis(value, tokens)
    return None if axis is None else value.movedim(axis, 0).reshape(tokens, -1)


def locate(part: torch.Tensor, whole: torch.Tensor) -> torch.Tensor | None:
    """For every column of `part` [tokens, m] the index of the same column in `whole` [tokens, n]; None if one lacks."""
    found = matches(part, whole)
    return None if bool((found < 0).any()) else found


def matches(part: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
    """Like `locate`, with -1 for the columns that lack."""
    known: dict[bytes, int] = {}
    for index, column in enumerate(whole.t().contiguous().float().numpy() + 0.0):
        known.setdefault(column.tobytes(), index)
    found = [known.get(column.tobytes(), -1) for column in part.t().contiguous().float().numpy() + 0.0]
    return torch.tensor(found, dtype=torch.long)


def relative(fitted: torch.Tensor, seen: torch.Tensor) -> float:
    """Largest absolute difference over the largest element of `seen`."""
    if fitted.shape != seen.shape:
        return float("inf")
    error = float((fitted - seen).abs().max() / seen.abs().max().clamp(min=1e-30))
    return error if error == error else float("inf")
