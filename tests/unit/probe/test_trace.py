"""The trace follows tensors through views, writes and iteration."""

from typing import Any

import torch
from torch import Tensor, nn

from autoadapter.probe.workers.trace import Event, Seen, Trace


class Doing(nn.Module):
    """A module that does what it is told."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """X [4, 4] → whatever."""
        return self.function(self, x)


def traced(function: Any) -> tuple[Trace, Seen]:
    """One pass and what came out."""
    model = Doing(function)
    with torch.no_grad(), Trace(model) as trace:
        model(torch.randn(4, 4))
    return trace, trace.calls_of("")[0].outs[0]


def ancestors(trace: Trace, seen: Seen) -> list[Event]:
    """Every event that a tensor came from."""
    found, todo = [], [seen]
    while todo:
        event = trace.maker(todo.pop())
        if event is not None and event not in found:
            found.append(event)
            todo += list(event.ins)
    return found


def test_a_product_names_its_parameter_through_a_view() -> None:
    trace, out = traced(lambda self, x: x @ self.weight.T)
    assert "weight" in {seen.parameter for event in ancestors(trace, out) for seen in event.ins}


def test_a_write_into_a_slice_is_an_event() -> None:
    def function(self: Doing, x: Tensor) -> Tensor:
        out = torch.zeros(4, 4)
        out[1:] = torch.relu(x)[1:]
        return out

    trace, out = traced(function)
    assert "relu" in [event.name for event in ancestors(trace, out)]
    assert not out.value[0].any()


def test_a_write_through_a_view_reaches_the_base() -> None:
    def function(self: Doing, x: Tensor) -> Tensor:
        out = torch.zeros(4, 4)
        out.view(-1).copy_(torch.sin(x).view(-1))
        return out

    trace, out = traced(function)
    assert "sin" in [event.name for event in ancestors(trace, out)]
    assert out.value.any()


def test_iteration_keeps_the_flow() -> None:
    trace, out = traced(lambda self, x: sum(row * 2 for row in torch.cos(x)))
    assert "cos" in [event.name for event in ancestors(trace, out)]


def test_a_call_keeps_its_arguments() -> None:
    trace, _ = traced(lambda self, x: x + 1)
    call = trace.calls_of("")[0]
    assert call.ins == (call.args[0],)
    assert [event.name for event in trace.within(call)] == ["add"]
