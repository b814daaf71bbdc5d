"""Products of a block in their roles: which read the input, which write what those made."""

from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor

from autoadapter.probe.workers.fit.feed_forward.products import Product
from autoadapter.probe.workers.trace import Event, Seen, Trace


@dataclass(frozen=True, eq=False)
class Chain:
    """One MLP as it was called: one or two readers, and the product that writes."""

    readers: tuple[Product, ...]
    down: Product

    @property
    def made(self) -> tuple[Tensor, ...]:
        """What the readers made, each [rows, width]."""
        return tuple(reader.out for reader in self.readers)


def feeders(trace: Trace, down: Product, known: Iterable[Product]) -> tuple[Product, ...]:
    """The products that the source of `down` was computed from, without passing another product; in order."""
    by_event: dict[Seen, list[Product]] = {}
    for product in known:
        if product is not down:
            by_event.setdefault(product.made, []).append(product)
    found: list[Product] = []
    for seen in ancestors(trace, down.source, stop=set(by_event)):
        found += by_event.get(seen, [])
    return tuple(sorted(found, key=lambda product: (product.made.event or 0, product.expert or 0)))


def ancestors(trace: Trace, seen: Seen, stop: set[Seen], floor: int = 0) -> list[Seen]:
    """Everything that a tensor was computed from, itself first; nothing behind what is in `stop` or before `floor`."""
    order, waiting, known = [seen], [seen], {seen}
    while waiting:
        node = waiting.pop()
        event = trace.maker(node)
        if node in stop or event is None or event.index < floor:
            continue
        for before in event.ins:
            if before not in known:
                known.add(before)
                order.append(before)
                waiting.append(before)
    return order


def path(trace: Trace, chain: Chain) -> tuple[Event, ...]:
    """The calls between what the readers made and the product that writes."""
    made = {reader.made for reader in chain.readers}
    floor = min(seen.event or 0 for seen in made)
    inside = {seen.event for seen in ancestors(trace, chain.down.source, made, floor) if seen not in made}
    return tuple(
        trace.events[index] for index in sorted(index for index in inside if index is not None and index >= floor)
    )
