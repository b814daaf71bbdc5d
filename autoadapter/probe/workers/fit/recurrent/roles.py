"""Which parameters a recurrent block uses, and how."""

from collections.abc import Iterator

import torch
from torch import Tensor

from autoadapter.probe.workers.fit.fitted import UnexplainedError
from autoadapter.probe.workers.scene import Block, Scene
from autoadapter.probe.workers.trace import Event, Seen

SAME = 1e-6


def projections(block: Block) -> list[Event]:
    """The products of a matrix with activations, in order."""
    return [event for event in block.events if event.name == "linear" and parameter(event, 1, "weight")]


def convolution(block: Block) -> Event:
    """The one depthwise convolution over the tokens.

    Raises:
        UnexplainedError: there is none, or more than one.
    """
    found = [event for event in block.events if event.name == "conv1d" and parameter(event, 1, "weight")]
    if len(found) != 1:
        raise UnexplainedError(
            block.module, (), f"{len(found)} convolutions over the tokens, a recurrent block has one"
        )
    return found[0]


def parameter(event: Event, at: int, name: str) -> str | None:
    """The parameter passed at a position or by a name."""
    given = event.kwargs.get(name, event.args[at] if at < len(event.args) else None)
    return given.parameter if isinstance(given, Seen) else None


def vectors(scene: Scene, block: Block) -> dict[str, Tensor]:
    """Every parameter with one axis longer than one that the block reads, flat, by name; helpers are followed."""
    names = dict.fromkeys(name for event in block.events for name in _read(scene, event, block))
    held = {name: scene.parameter(name).detach().float() for name in names}
    return {name: tensor.flatten() for name, tensor in held.items() if sum(size > 1 for size in tensor.shape) == 1}


def factor_between(first: Seen, second: Seen) -> float | None:
    """c where second = c · first, else None."""
    if first.value.shape != second.value.shape:
        return None
    x, y = first.value.double().flatten(), second.value.double().flatten()
    factor = float((x @ y) / (x @ x))
    return factor if float((y - factor * x).abs().max()) <= SAME * float(y.abs().max()) else None


def clamped(block: Block) -> tuple[float, float] | None:
    """The bounds of the block's clamp that bound anything at all."""
    for event in block.events:
        if event.name.strip("_") in ("clamp", "clip"):
            low, high = (event.kwargs.get(name, _at(event, at)) for at, name in ((1, "min"), (2, "max")))
            bounds = (0.0 if low is None else float(low), float("inf") if high is None else float(high))
            if bounds != (0.0, float("inf")):
                return bounds
    return None


def row_factors(scene: Scene, block: Block, event: Event) -> Tensor | None:
    """What each row of a projection's output is multiplied by, where that is done right after it."""
    made = event.outs[0]
    for later in block.events:
        if later.name.strip("_") in ("mul", "multiply") and any(seen is made for seen in later.ins):
            others = [seen.value for seen in later.ins if seen is not made]
            if len(others) == 1 and others[0].numel() == made.value.shape[-1]:
                return others[0].flatten().float()
    return None


def _read(scene: Scene, event: Event, block: Block) -> Iterator[str]:
    for seen in event.ins:
        if seen.parameter is not None:
            yield seen.parameter
            continue
        maker = scene.trace.maker(seen)
        if maker is not None and maker not in block.events and seen.value.numel() <= scene_width(block):
            yield from _read(scene, maker, block)


def scene_width(block: Block) -> int:
    """Elements of one token's hidden state: helpers are no larger."""
    return int(block.x.value.shape[-1])


def _at(event: Event, at: int) -> float | None:
    return event.args[at] if at < len(event.args) else None


def divisors(number: int) -> list[int]:
    """Of a positive number, ascending."""
    return [small for small in range(1, number + 1) if number % small == 0]


def relative(made: Tensor, wanted: Tensor) -> float:
    """The largest error relative to the largest element; infinite where anything is not a number."""
    error = float((made - wanted).abs().max() / wanted.abs().max())
    return error if torch.isfinite(torch.tensor(error)) else float("inf")
