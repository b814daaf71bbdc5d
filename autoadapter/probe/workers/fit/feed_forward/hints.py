"""Numbers that the calls of a block mention: candidates for scales and limits, each to be proved by recomputation."""

from collections.abc import Iterable

from torch.utils._pytree import tree_leaves

from autoadapter.probe.workers.fit.feed_forward.gating import Hints
from autoadapter.probe.workers.fit.feed_forward.products import parameters_in
from autoadapter.probe.workers.scene import Scene
from autoadapter.probe.workers.trace import Event

SCALING = frozenset("mul mul_ __mul__ __rmul__ __imul__ div div_ __truediv__ __itruediv__ true_divide".split())
CLAMPING = frozenset("clamp clamp_ clip clamp_max clamp_min hardtanh min minimum maximum".split())
COMPARING = frozenset("gt ge lt le greater less greater_equal less_equal __gt__ __ge__ __lt__ __le__".split())


def hints(scene: Scene, events: Iterable[Event]) -> Hints:
    """What the calls mention."""
    events = tuple(events)
    limits = [abs(number) for event in events if event.name in CLAMPING for number in _numbers(event)]
    singles = parameters_in(scene.trace, events)
    return Hints(
        scales=tuple(dict.fromkeys(factors(events))),
        limits=tuple(dict.fromkeys(limits)),
        singles=tuple((name, value) for name, value in singles.items() if value.numel() == 1),
    )


def factors(events: Iterable[Event]) -> list[float]:
    """By what tensors were multiplied: plain numbers, and the reciprocals of divisors."""
    found = []
    for event in events:
        if event.name in SCALING:
            dividing = "div" in event.name
            found += [1 / number if dividing else number for number in _numbers(event) if number]
    return found


def divisors(events: Iterable[Event]) -> list[float]:
    """By what tensors were divided."""
    return [number for event in events if "div" in event.name for number in _numbers(event) if number]


def thresholds(events: Iterable[Event]) -> list[float]:
    """With what tensors were compared."""
    return [number for event in events if event.name in COMPARING for number in _numbers(event) if number > 0]


def _numbers(event: Event) -> list[float]:
    return [
        float(leaf)
        for leaf in tree_leaves((event.args, event.kwargs))
        if isinstance(leaf, int | float) and not isinstance(leaf, bool)
    ]
