"""Finds what a checkpoint tensor holds by looking its rows up among the spec's parameters."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from autoadapter.probe.workers.weights.lookup import EXPERT, Lookup, Place, as_bytes


@dataclass(frozen=True)
class Location:
    """What one checkpoint tensor holds; the fields are those of `WeightSource`."""

    checkpoint: str
    targets: tuple[str, ...]
    groups: int
    transposed: bool
    experts: Literal["none", "named", "leading", "rows"]
    expert: int | None
    squeezed: bool = False


def locate(lookup: Lookup, name: str, tensor: Tensor, hints: tuple[str, ...]) -> Location | None:
    """What a checkpoint tensor holds, or None when its values are no parameter's.

    Args:
        lookup: over the spec's parameters.
        name: the tensor's name in the checkpoint.
        tensor: its values.
        hints: spec names that it might hold by its name: they decide between equal parameters, and nothing else.
    """
    if tensor.ndim == 0:
        return None
    if tensor.ndim == 1:
        return _described(name, _vector_places(lookup, tensor, hints), False, tensor, lookup)
    for turned, transposed in _turns(lookup, tensor):
        located = _described(name, _matrix_places(lookup, turned, hints), transposed, tensor, lookup)
        if located is not None:
            return located
    if tensor.ndim == 2:  # vectors of all experts
        each = [_vector_places(lookup, part, hints) for part in tensor]
        return _described(name, [place for places in each for place in places], False, tensor, lookup)
    return None


def _turns(lookup: Lookup, tensor: Tensor) -> Iterator[tuple[Tensor, bool]]:
    """The tensor as it may be read, and whether that is transposed; last each expert's rows turned for themselves."""
    yield tensor, False
    yield tensor.transpose(-1, -2), True
    if tensor.ndim == 2:
        counts = {len(values) for name, values in lookup.parameters.items() if EXPERT.fullmatch(name)}
        yield from ((tensor.unflatten(0, (e, -1)).transpose(-1, -2), True) for e in counts if len(tensor) % e == 0)


def _matrix_places(lookup: Lookup, tensor: Tensor, hints: tuple[str, ...]) -> list[Place]:
    found = [lookup.matrices.get(as_bytes(row), []) for row in tensor.reshape(-1, tensor.shape[-1])]
    return _decided(found, hints) if all(found) else []


def _vector_places(lookup: Lookup, vector: Tensor, hints: tuple[str, ...]) -> list[Place]:
    """One place an element."""
    whole = lookup.vectors.get(as_bytes(vector))
    if whole:
        first = _decided([whole], hints)[0]
        return [Place(first.name, first.expert, row) for row in range(len(vector))]
    elements = set(vector.tolist())
    parts = [place for places in lookup.vectors.values() for place in places]
    parts = [place for place in parts if elements.issuperset(lookup.tensor(place).tolist())]
    by_element: dict[float, list[Place]] = {}
    for place in parts:
        for row, value in enumerate(lookup.tensor(place).tolist()):
            by_element.setdefault(value, []).append(Place(place.name, place.expert, row))
    found = [by_element.get(value, []) for value in vector.tolist()]
    return _decided(found, hints) if all(found) else []


def _decided(found: list[list[Place]], hints: tuple[str, ...]) -> list[Place]:
    """One place each: what is unique says which parameters are meant where rows are equal."""
    known = {(places[0].name, places[0].expert) for places in found if len(places) == 1}
    result = []
    taken: set[Place] = set()
    for places in found:
        order = [p for p in places if (p.name, p.expert) in known] or [p for p in places if p.name in hints] or places
        chosen = next((place for place in order if place not in taken), order[0])
        taken.add(chosen)
        result.append(chosen)
    return result


def _described(name: str, places: list[Place], transposed: bool, tensor: Tensor, lookup: Lookup) -> Location | None:
    if not places:
        return None
    experts = list(dict.fromkeys(place.expert for place in places))
    each = len(places) // len(experts)
    runs = [places[i : i + each] for i in range(0, len(places), each)]
    orders = {tuple((place.name, place.row) for place in run) for run in runs}
    if len(orders) != 1 or any(len({place.expert for place in run}) != 1 for run in runs):
        return None
    targets = tuple(dict.fromkeys(place.name for place in places))
    groups = _groups(list(orders.pop()), targets, lookup)
    if groups is None or (len(experts) > 1 and experts != list(range(len(lookup.parameters[targets[0]])))):
        return None
    if experts == [None]:
        squeezed = tensor.ndim > lookup.tensor(places[0]).ndim
        return Location(name, targets, groups, transposed, "none", None, squeezed)
    if len(experts) == 1 and tensor.ndim <= lookup.tensor(places[0]).ndim:
        return Location(name, targets, groups, transposed, "named", experts[0])
    stacked = tensor.ndim > lookup.tensor(places[0]).ndim
    return Location(name, targets, groups, transposed, "leading" if stacked else "rows", None)


def _groups(order: list[tuple[str, int]], targets: tuple[str, ...], lookup: Lookup) -> int | None:
    """Into how many parts the rows fall; None when they lie in no such order, or not all are there."""
    sizes = {target: sum(name == target for name, _ in order) for target in targets}
    for groups in _common_divisors(list(sizes.values())):
        if order == [
            (target, part * (sizes[target] // groups) + row)
            for part in range(groups)
            for target in targets
            for row in range(sizes[target] // groups)
        ]:
            return groups if all(sizes[t] == _whole(lookup, t) for t in targets) else None
    return None


def _whole(lookup: Lookup, target: str) -> int:
    tensor = lookup.parameters[target]
    tensor = tensor[0] if EXPERT.fullmatch(target) else tensor
    return tensor.reshape(-1, tensor.shape[-1]).shape[0] if tensor.ndim > 1 else len(tensor)


def _common_divisors(sizes: list[int]) -> Iterator[int]:
    for groups in range(1, min(sizes) + 1):
        if all(size % groups == 0 for size in sizes):
            yield groups
