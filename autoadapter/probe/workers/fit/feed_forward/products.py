"""The products of a block with parameters: what was multiplied, how the parameter lies in memory, what was added."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from autoadapter.probe.workers.scene import Scene
from autoadapter.probe.workers.trace import Event, Seen, Trace

LINEAR = frozenset({"linear"})
BIASED = frozenset({"addmm", "addbmm", "baddbmm"})
PLAIN = frozenset({"matmul", "mm", "bmm", "__matmul__", "__rmatmul__"})
SUMS = frozenset({"add", "add_", "__add__", "__iadd__", "__radd__"})
MOVES = frozenset(
    "view view_as reshape transpose permute contiguous clone to float double type type_as flatten unflatten __getitem__"
    " select squeeze unsqueeze expand t detach __get__ narrow chunk split unbind alias dropout copy_"
    " index_select".split()
)
"""Calls that change no element."""
Layout = Literal["none", "leading", "rows"]
"""How the parameter holds the weight: alone; one of [experts, …]; one of [experts × rows, …]."""


@dataclass(frozen=True, eq=False)
class Product:
    """x · weightᵀ + bias with parameters."""

    x: Tensor
    """[rows, inputs]"""
    out: Tensor
    """[rows, outputs], the bias added."""
    source: Seen
    """Whence x came, before it was flattened."""
    made: Seen
    """The result, the bias added."""
    parameter: str
    weight: Tensor
    """[outputs, inputs]"""
    transposed: bool
    """The parameter lies as [inputs, outputs]."""
    layout: Layout = "none"
    expert: int | None = None
    """Which part of a stacked parameter `weight` is."""
    bias: str | None = None
    bias_value: Tensor | None = None

    @property
    def inputs(self) -> int:
        """Width of what is read."""
        return self.weight.shape[1]

    @property
    def outputs(self) -> int:
        """Width of what is made."""
        return self.weight.shape[0]


def products(scene: Scene, events: Iterable[Event]) -> list[Product]:
    """All products with a parameter among `events`, in order; a batched one once for each of its experts."""
    events = tuple(events)
    return [product for event in events for product in _products(scene, event, events)]


def parameter_of(trace: Trace, seen: Seen) -> str | None:
    """The name of the parameter whose elements a tensor holds, through casts and views; None if it is computed."""
    while seen.parameter is None:
        event = trace.maker(seen)
        if event is None or event.name not in MOVES or len(event.ins) != 1:
            return None
        seen = event.ins[0]
    return seen.parameter


def parameters_in(trace: Trace, events: Iterable[Event]) -> dict[str, Tensor]:
    """Every parameter or buffer that any of the calls takes, whole or in part, with its value there."""
    found: dict[str, Tensor] = {}
    for event in events:
        for seen in event.ins:
            name = parameter_of(trace, seen)
            if name is not None:
                found.setdefault(name, seen.value)
    return found


def _products(scene: Scene, event: Event, events: tuple[Event, ...]) -> Iterator[Product]:
    operands = _operands(scene.trace, event)
    if operands is None:
        return
    source, weight, name, bias = operands
    bias_name = parameter_of(scene.trace, bias) if bias is not None else None
    made, value = event.outs[0], bias.value if bias is not None else None
    if bias_name is None:
        made, bias_name, value = _later_bias(scene.trace, made, weight.shape[-2], events)
    full = scene.parameter(name).detach()
    for part, x, out, expert in _parts(weight, source.value, made.value):
        lies = _lies(full, part, expert)
        if lies is None:
            continue
        layout, transposed, index = lies
        own = value if value is None or value.ndim == 1 or expert is None else value[expert].flatten()
        yield Product(x, out, source, made, name, part, transposed, layout, index, bias_name, own)


def _operands(trace: Trace, event: Event) -> tuple[Seen, Tensor, str, Seen | None] | None:
    """What was multiplied, the weight [..., outputs, inputs], its name, the bias."""
    ins = event.ins
    if event.name in LINEAR and len(ins) >= 2:
        source, weight, bias, flip = ins[0], ins[1], ins[2] if len(ins) > 2 else None, False
    elif event.name in BIASED and len(ins) == 3:
        source, weight, bias, flip = ins[1], ins[2], ins[0], True
    elif event.name in PLAIN and len(ins) == 2:
        source, weight, bias, flip = ins[0], ins[1], None, True
    else:
        return None
    name = parameter_of(trace, weight)
    if name is None or parameter_of(trace, source) is not None or weight.value.ndim < 2:
        return None
    return source, weight.value.transpose(-1, -2) if flip else weight.value, name, bias


def _parts(weight: Tensor, x: Tensor, out: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor, int | None]]:
    if weight.ndim == 2:
        yield weight, x.reshape(-1, x.shape[-1]), out.reshape(-1, out.shape[-1]), None
    elif weight.ndim == 3 and x.ndim == 3 and len(weight) > 1:
        for index, part in enumerate(weight):
            yield part, x[index if len(x) > 1 else 0], out[index], index


def _lies(full: Tensor, part: Tensor, expert: int | None) -> tuple[Layout, bool, int | None] | None:
    """How `part` [outputs, inputs] lies in the whole parameter: layout, transposed, index."""
    for transposed, piece in ((False, part), (True, part.T)):
        if full.shape == piece.shape and torch.equal(full, piece):
            return "none", transposed, None
        stacked = full
        if full.ndim == 2 and full.shape[1] == piece.shape[1] and len(full) % len(piece) == 0:
            stacked = full.unflatten(0, (-1, len(piece)))
        if stacked.ndim != 3 or stacked.shape[1:] != piece.shape:
            continue
        for index in [expert] if expert is not None else range(len(stacked)):
            if torch.equal(stacked[index], piece):
                return "leading" if full.ndim == 3 else "rows", transposed, index
    return None


def _later_bias(
    trace: Trace, made: Seen, outputs: int, events: tuple[Event, ...]
) -> tuple[Seen, str | None, Tensor | None]:
    """A parameter that is added to a product right after it."""
    for event in events:
        if event.name not in SUMS or made not in event.ins or len(event.ins) != 2:
            continue
        other = event.ins[1] if event.ins[0] is made else event.ins[0]
        name = parameter_of(trace, other)
        if name is not None and other.value.shape[-1] == outputs and other.value.numel() % outputs == 0:
            return event.outs[0], name, other.value
    return made, None, None
