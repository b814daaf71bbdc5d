"""Products with a parameter: which weight and bias made a tensor."""

from dataclasses import dataclass

import torch

from autoadapter.probe.workers.fit.attention.flow import PRODUCTS, columns, relative
from autoadapter.probe.workers.scene import Scene
from autoadapter.probe.workers.trace import Seen

EXACT = 1e-5


@dataclass(frozen=True, eq=False)
class Product:
    """out = source · weightᵀ + bias."""

    source: Seen
    out: Seen
    """Before a bias that is added later."""
    weight: str
    bias: str | None
    transposed: bool
    """The parameter is [inputs, outputs]."""
    outs: int

    def rows(self, scene: Scene) -> torch.Tensor:
        """The weight as [outputs, inputs]."""
        weight = scene.parameter(self.weight).detach().float()
        return weight.t() if self.transposed else weight


def product_of(scene: Scene, source: Seen, out: Seen) -> Product | None:
    """The product that made `out` from `source` in one call, or None."""
    event = scene.trace.maker(out)
    if event is None or event.name not in PRODUCTS or source not in event.ins:
        return None
    given = [seen for seen in event.ins if seen.parameter]
    weights = [seen for seen in given if seen.value.ndim == 2]
    biases = [seen for seen in given if seen.value.ndim == 1]
    tokens = scene.ids.shape[1]
    x, y = columns(source.value, tokens), columns(out.value, tokens)
    if len(weights) != 1 or len(biases) > 1 or x is None or y is None:
        return None
    name, bias = weights[0].parameter or "", biases[0].parameter if biases else None
    full = scene.parameter(name).detach().float()
    added = scene.parameter(bias).detach().float() if bias else 0.0
    for transposed in (False, True):
        rows = full.t() if transposed and full.ndim == 2 else full
        if rows.ndim == 2 and rows.shape == (y.shape[1], x.shape[1]) and relative(x @ rows.t() + added, y) < EXACT:
            return Product(source, out, name, bias, transposed, y.shape[1])
    return None
