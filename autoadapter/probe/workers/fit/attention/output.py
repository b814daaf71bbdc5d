"""From the mixed values to the block's output: gate, norm, output projection."""

from dataclasses import dataclass, replace

import torch

from autoadapter.artifacts.decoder import OutputGate, Value
from autoadapter.probe.workers.fit.attention.chain import Activated, Chain, walk
from autoadapter.probe.workers.fit.attention.core import Core
from autoadapter.probe.workers.fit.attention.flow import MOVES, between, columns, locate, relative, spanned, waypoints
from autoadapter.probe.workers.fit.attention.head_norms import HeadNorm, fit_head_norm
from autoadapter.probe.workers.fit.attention.products import EXACT, Product, product_of
from autoadapter.probe.workers.fit.fitted import UnexplainedError
from autoadapter.probe.workers.scene import Block, Scene
from autoadapter.probe.workers.trace import Seen


@dataclass(frozen=True, eq=False)
class Output:
    """What follows the mixing."""

    product: Product
    gate: tuple[OutputGate, Chain] | None
    sub_norm: HeadNorm | None
    sinks: torch.Tensor | None
    """[heads], where they come as a factor of the values: sigmoid(logsumexp(scores) - sink)."""


@dataclass
class Way:
    """The walk forward along the tensors that all of the mixed values pass."""

    scene: Scene
    block: Block
    core: Core
    points: tuple[Seen, ...]
    index: torch.Tensor
    at: int = 0
    gate: tuple[OutputGate, Chain] | None = None
    sub_norm: HeadNorm | None = None
    sinks: torch.Tensor | None = None

    def run(self) -> Output:
        """To the output projection, and on to the block's end."""
        while self.at + 1 < len(self.points):
            before, out = self.points[self.at], self.points[self.at + 1]
            product = product_of(self.scene, before, out)
            if product is not None:
                return self._end(product)
            if not (self._moved(before, out) or self._normed(before) or self._gated(before, out)):
                calls = " ".join(event.name for event in between(self.scene.trace, before, out))
                raise UnexplainedError(self.block.module, (), f"{calls} after the values is no gate and no norm")
        raise UnexplainedError(self.block.module, (), "no output projection")

    def _columns(self, seen: Seen) -> torch.Tensor:
        found = columns(seen.value, self.scene.ids.shape[1])
        return torch.zeros(self.scene.ids.shape[1], 0) if found is None else found

    def _moved(self, before: Seen, out: Seen) -> bool:
        if any(event.name not in MOVES for event in between(self.scene.trace, before, out)):
            return False
        found = locate(self._columns(before)[:, self.index.flatten()], self._columns(out))
        if found is None:
            return False
        self.index, self.at = found.reshape(self.index.shape), self.at + 1
        return True

    def _gated(self, before: Seen, out: Seen) -> bool:
        event = self.scene.trace.maker(out)
        if event is None or event.name not in ("mul", "mul_", "multiply") or before.value.shape != out.value.shape:
            return False
        factor = next((seen for seen in event.ins if seen is not before), None)
        if factor is None or factor.parameter or factor.value.numel() == 1 or self.gate or self.sub_norm:
            return False
        if self._sunk(factor.value, before.value.shape):
            self.at += 1
            return True
        spread = self._columns(Seen(factor.value.expand(out.value.shape), None, None))[:, self.index.flatten()]
        index = locate(spread, self._columns(factor))
        if index is None:
            return False
        index = index.reshape(self.index.shape)
        by_head = bool((index == index[:, :1]).all())
        chain = walk(self.scene, self.block, factor, index[:, :1] if by_head else index)
        gate = OutputGate(
            activation=self._activation(chain),
            width="head" if by_head else "element",
            bias=chain.product.bias is not None,
            scale=None if chain.scale == 1.0 else Value(number=chain.scale),
        )
        self.gate, self.at = (gate, chain), self.at + 1
        return True

    def _sunk(self, factor: torch.Tensor, shape: torch.Size) -> bool:
        """Whether the factor is what a sink of each head leaves to the other keys."""
        total = torch.logsumexp(self.core.logits.double(), -1)
        by_head = factor.double().expand(shape)[..., :1]
        if by_head.numel() != total.numel() or self.sinks is not None or not bool((by_head < 1).all()):
            return False
        level = total - torch.logit(by_head.reshape(total.shape))
        steady = level.mean(-1)
        if float((torch.sigmoid(total - steady[:, None]) - by_head.reshape(total.shape)).abs().max()) > EXACT:
            return False
        self.sinks = steady.float()
        return True

    def _activation(self, chain: Chain) -> str:
        act = chain.only(Activated)
        if act is None or chain.steps[0] is not act or not chain.reads(self.block.x):
            raise UnexplainedError(self.block.module, (), "a gate that is no activation of a projection of the input")
        return act.name

    def _normed(self, before: Seen) -> bool:
        for at in range(min(len(self.points) - 1, self.at + 10), self.at, -1):
            out = self.points[at]
            if out.value.shape == before.value.shape and out.value.shape[-1] == self.index.numel():
                norm = fit_head_norm(
                    self.scene, before.value, out.value, spanned(self.scene.trace, before, out), self.index
                )
                if norm is not None and norm.width == "full" and self.sub_norm is None:
                    self.sub_norm, self.at = norm, at
                    return True
        return False

    def _is_vector(self, name: str) -> bool:
        return self.scene.parameter(name).ndim == 1  # it may have been expanded before it was added

    def _end(self, product: Product) -> Output:
        if not torch.equal(self.index.flatten(), torch.arange(self.index.numel())):
            raise UnexplainedError(self.block.module, (), "the output projection reads the heads in another order")
        self.at += 1
        bias = product.bias
        while self.at + 1 < len(self.points):
            before, out = self.points[self.at], self.points[self.at + 1]
            calls = between(self.scene.trace, before, out)
            held = [seen for event in calls for seen in event.ins if seen.parameter]
            given = [seen for seen in held if self._is_vector(str(seen.parameter))]
            if len(given) == 1 and bias is None and relative(before.value + given[0].value, out.value) < EXACT:
                bias = given[0].parameter
            elif any(call.name not in MOVES for call in calls) or before.value.numel() != out.value.numel():
                names = " ".join(call.name for call in calls)
                raise UnexplainedError(self.block.module, (), f"{names} after the output projection")
            self.at += 1
        return Output(replace(product, bias=bias), self.gate, self.sub_norm, self.sinks)


def fit_output(scene: Scene, block: Block, core: Core) -> Output:
    """The way from mixed values to y.

    Raises:
        UnexplainedError: a step is none of the known ones.
    """
    points = waypoints(scene.trace, core.out.seen, block.y)
    return Way(scene, block, core, points, core.out.index).run()
