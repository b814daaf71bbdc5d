"""Recognises the product of a tensor with a weight, whatever call made it."""

from dataclasses import dataclass

from autoadapter.probe.workers.fit.norms import ROUNDING
from autoadapter.probe.workers.fit.skeleton.flow import Flow
from autoadapter.probe.workers.trace import Event, Seen


@dataclass(frozen=True, eq=False)
class Product:
    """out = x · weightᵀ + bias."""

    x: Seen
    weight: str
    transposed: bool
    """The weight is [inputs, outputs]."""
    bias: str | None
    error: float


def product_of(flow: Flow, out: Seen) -> Product | None:
    """The product that a tensor is, its bias added in the same call or in the next."""
    event = flow.maker(out)
    if event is None:
        return None
    biases = [seen for seen in event.ins if seen.parameter is not None and seen.value.ndim == 1]
    makers = [event, *(flow.maker(seen) for seen in event.ins if seen.parameter is None)] if biases else [event]
    for maker in makers:
        found = None if maker is None else _tried(flow, maker, out, biases)
        if found is not None:
            return found
    return None


def _tried(flow: Flow, event: Event, out: Seen, biases: list[Seen]) -> Product | None:
    weights = [seen for seen in event.ins if seen.parameter is not None and seen.value.ndim == 2]
    inputs = [seen for seen in event.ins if seen.parameter is None and seen.value.is_floating_point()]
    wanted = out.value.double().reshape(-1, out.value.shape[-1])
    for weight in weights:
        table = flow.parameter(str(weight.parameter)).double()
        for x in inputs:
            rows = x.value.double().reshape(-1, x.value.shape[-1])
            for transposed in (False, True):
                matrix = table if transposed else table.T
                if rows.shape[-1] != matrix.shape[0] or matrix.shape[1] != wanted.shape[1] or len(rows) != len(wanted):
                    continue
                for bias in (None, *biases):
                    made = rows @ matrix if bias is None else rows @ matrix + bias.value.double()
                    error = float((made - wanted).abs().max() / wanted.abs().max().clamp_min(1e-30))
                    if error < ROUNDING:
                        name = None if bias is None else bias.parameter
                        return Product(flow.root(x), str(weight.parameter), transposed, name, error)
    return None
