"""Takes sums and scales apart: a tensor as others times constants."""

from collections.abc import Callable
from dataclasses import dataclass

from autoadapter.probe.workers.fit.skeleton.flow import SCALES, SUMS, Flow, plain
from autoadapter.probe.workers.trace import Event, Seen


@dataclass(frozen=True)
class Term:
    """One summand: `factor` × `seen`; `scaled` when a factor was written down, be it 1."""

    factor: float
    seen: Seen
    scaled: bool = False


def split(flow: Flow, seen: Seen) -> tuple[Term, ...]:
    """The summands of a sum, or the one operand of a scaling by a constant; nothing for anything else."""
    seen = flow.root(seen)
    event = flow.trace.maker(seen)
    if event is None:
        return ()
    name = plain(event.name)
    if name in SUMS:
        return _summands(flow, event, seen)
    return _scaled(flow, event, seen) if name in SCALES else ()


def expand(flow: Flow, seen: Seen, whole: Callable[[Seen], bool]) -> tuple[Term, ...]:
    """A tensor as a linear combination of others; what is `whole`, and what is no sum, stays together."""
    found: dict[Seen, Term] = {}
    todo = [Term(1.0, flow.root(seen))]
    first = True
    while todo:
        term = todo.pop()
        parts = () if whole(term.seen) and not first else split(flow, term.seen)
        first = False
        if parts:
            todo += [Term(term.factor * p.factor, p.seen, term.scaled or p.scaled) for p in parts]
        else:
            known = found.get(term.seen)
            factor = term.factor + (known.factor if known else 0)
            found[term.seen] = Term(factor, term.seen, term.scaled or bool(known))
    return tuple(sorted(found.values(), key=lambda term: -1 if term.seen.event is None else term.seen.event))


def unscale(flow: Flow, seen: Seen) -> Term:
    """A tensor without the constant factors before it."""
    term = Term(1.0, flow.root(seen))
    while True:
        parts = split(flow, term.seen)
        if len(parts) != 1 or not parts[0].scaled:
            return term
        term = Term(term.factor * parts[0].factor, parts[0].seen, True)


def _summands(flow: Flow, event: Event, out: Seen) -> tuple[Term, ...]:
    pair = [flow.root(arg) if isinstance(arg, Seen) else None for arg in (*event.args[:2], event.kwargs.get("other"))]
    first, second = [seen for seen in pair if seen is not None][:2] if sum(map(bool, pair)) >= 2 else (None, None)
    if first is None or second is None:
        return ()
    size = out.value.numel()
    if first.value.numel() != size or second.value.numel() != size:
        return ()
    factor = flow.number(event.kwargs.get("alpha", event.args[2] if len(event.args) > 2 else 1.0)) or 1.0
    reverse = event.name.startswith("__r")
    if plain(event.name) != "add":
        return (Term(-1.0, first), Term(1.0, second)) if reverse else (Term(1.0, first), Term(-factor, second))
    return (Term(1.0, first), Term(factor, second, factor != 1.0))


def _scaled(flow: Flow, event: Event, out: Seen) -> tuple[Term, ...]:
    if len(event.args) < 2:
        return ()
    operands = event.args[:2]
    dividing = "div" in plain(event.name)
    for at, arg in enumerate(operands):
        other, factor = operands[1 - at], flow.number(arg)
        if factor is None or not isinstance(other, Seen) or other.value.numel() != out.value.numel():
            continue
        if dividing and (at == 0 or event.name.startswith("__r") or event.kwargs.get("rounding_mode")):
            return ()
        return (Term(1 / factor if dividing else factor, flow.root(other), True),)
    return ()
