"""How one parameter holds the rows of several projections: parts, order, and the config key that counts the parts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from autoadapter.artifacts.decoder import Value
from autoadapter.probe.workers.fit.attention.chain import Chain
from autoadapter.probe.workers.fit.attention.sizes import HEADS, KV_HEADS
from autoadapter.probe.workers.fit.binding import bind
from autoadapter.probe.workers.fit.fitted import ONE, ParameterUse, UnexplainedError


@dataclass(frozen=True)
class Placed:
    """A projection of the spec and the rows of the parameter that are its own, in its order."""

    target: str
    rows: torch.Tensor
    """[outputs]"""


def pack(parameter: str, outs: int, placed: Sequence[Placed], module: str) -> tuple[int, tuple[str, ...]]:
    """In how many equal parts the rows lie, and in which order the targets follow in a part.

    Raises:
        UnexplainedError: the rows lie in no such way.
    """
    for parts in _parts(placed):
        if any(len(one.rows) % parts for one in placed):
            continue
        order = sorted(placed, key=lambda one: int(one.rows.min()))
        if outs == sum(len(one.rows) for one in placed) and _holds(order, parts):
            return parts, tuple(one.target for one in order)
    raise UnexplainedError(module, (), f"the rows of {parameter} are not parts of {[one.target for one in placed]}")


def _holds(order: Sequence[Placed], parts: int) -> bool:
    size, start = sum(len(one.rows) for one in order) // parts, 0
    for one in order:
        share = len(one.rows) // parts
        expected = torch.arange(parts)[:, None] * size + start + torch.arange(share)
        if not torch.equal(one.rows, expected.flatten()):
            return False
        start += share
    return True


def _parts(placed: Sequence[Placed]) -> Iterator[int]:
    yield 1
    smallest = min(len(one.rows) for one in placed)
    yield from (parts for parts in range(2, smallest + 1) if smallest % parts == 0)


def counted(config: Any, parts: int, keys: tuple[str, ...]) -> Value:
    """The number of parts with the key that states it."""
    return ONE if parts == 1 else bind(config, parts, keys)


def uses_of(
    chains: dict[str, Chain], config: Any, module: str, keys: tuple[str, ...] = (*KV_HEADS, *HEADS)
) -> tuple[ParameterUse, ...]:
    """Where the projections lie.

    Args:
        chains: by the projection's name, their rows without repeats.
        config: the reference's.
        module: the block's.
        keys: what may count the parts, the likeliest first: key heads before heads.

    Raises:
        UnexplainedError: the rows of a parameter are no equal parts.
    """
    weights: dict[tuple[str, str, bool, int], list[Placed]] = {}
    for name, chain in chains.items():
        product, rows = chain.product, chain.rows.flatten()
        for parameter, what in ((product.weight, "weight"), (product.bias, "bias")):
            if parameter:
                key = (parameter, what, product.transposed and what == "weight", product.outs)
                weights.setdefault(key, []).append(Placed(f"{name}.{what}", rows))
    uses = []
    for (parameter, _, transposed, outs), placed in weights.items():
        for group in _apart(placed):
            parts, targets = pack(parameter, outs, group, module)
            uses.append(ParameterUse(parameter, targets, counted(config, parts, keys), transposed))
    return tuple(uses)


def _apart(placed: list[Placed]) -> list[list[Placed]]:
    """Projections that share rows (keys that serve as values, too) use the parameter each for itself."""
    first = set(placed[0].rows.tolist())
    shared = [one for one in placed[1:] if first & set(one.rows.tolist())]
    return [[one] for one in placed] if shared else [placed]
