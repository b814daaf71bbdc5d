"""Walks from heads back to the product that made them, and says every step on the way."""

from dataclasses import dataclass, replace
from typing import Any

import torch

from autoadapter.artifacts.decoder import Rope
from autoadapter.probe.workers.fit.attention.flow import MOVES, between, columns, locate, relative, spanned, waypoints
from autoadapter.probe.workers.fit.attention.head_norms import HeadNorm, fit_head_norm
from autoadapter.probe.workers.fit.attention.products import EXACT, Product, product_of
from autoadapter.probe.workers.fit.attention.rope import fit_rope
from autoadapter.probe.workers.fit.attention.sizes import snapped
from autoadapter.probe.workers.fit.fitted import UnexplainedError
from autoadapter.probe.workers.scene import Block, Scene
from autoadapter.probe.workers.trace import Event, Seen

ACTIVATIONS = {
    "sigmoid": torch.sigmoid,
    "softplus": torch.nn.functional.softplus,
    "silu": torch.nn.functional.silu,
}
REACH = 14
"""Waypoints that one norm or rotation may span."""


@dataclass(frozen=True)
class Scaled:
    """A multiplication by one number."""

    number: float


@dataclass(frozen=True)
class Clipped:
    """A clamp to ± this."""

    number: float


@dataclass(frozen=True)
class Activated:
    """An activation function."""

    name: str


@dataclass(frozen=True)
class Rotated:
    """A rotation; all candidates with their errors, best first."""

    tried: tuple[tuple[float, Rope], ...]


Step = Scaled | Clipped | Activated | Rotated | HeadNorm


@dataclass(frozen=True, eq=False)
class Chain:
    """Heads = steps(product's outputs at `rows`)."""

    product: Product
    rows: torch.Tensor
    """[heads, dim]: the product's output feature of each element."""
    steps: tuple[Step, ...]

    def only(self, kind: type) -> Any:
        """The one step of a kind, or None."""
        found = [step for step in self.steps if isinstance(step, kind)]
        return found[0] if len(found) == 1 else None

    def reads(self, x: Seen) -> bool:
        """Whether the product is one with x, reshaped at most."""
        source = self.product.source.value
        return source.numel() == x.value.numel() and torch.equal(source.flatten(), x.value.flatten())

    @property
    def scale(self) -> float:
        """What all scalings multiply to."""
        result = 1.0
        for step in self.steps:
            result *= step.number if isinstance(step, Scaled) else 1.0
        return result


@dataclass
class Walk:
    """One walk back: where it is, and what it has passed."""

    scene: Scene
    block: Block
    points: tuple[Seen, ...]
    index: torch.Tensor
    at: int
    passed: list[Step]
    bias: tuple[str, torch.Tensor] | None = None

    def run(self) -> Chain:
        """Back to the first product."""
        while self.at > 0:
            out, before = self.points[self.at], self.points[self.at - 1]
            product = product_of(self.scene, before, out)
            if product is not None:
                return Chain(self._with_bias(product), self.index, tuple(reversed(self.passed)))
            if not (self._moved(before, out) or self._simple(before, out) or self._spanning(out)):
                self._give_up(out, before)
        raise UnexplainedError(self.block.module, (), "heads that come from no product with a parameter")

    def _columns(self, seen: Seen) -> torch.Tensor:
        found = columns(seen.value, self.scene.ids.shape[1])
        return torch.zeros(self.scene.ids.shape[1], 0) if found is None else found

    def _moved(self, before: Seen, out: Seen) -> bool:
        calls = between(self.scene.trace, before, out)
        if before.value.is_complex() or any(event.name not in MOVES for event in calls):
            return False
        found = locate(self._columns(out)[:, self.index.flatten()], self._columns(before))
        if found is None:
            return False
        self.index, self.at = found.reshape(self.index.shape), self.at - 1
        return True

    def _simple(self, before: Seen, out: Seen) -> bool:
        """One call of one input: a bias, a clamp, a scalar, an activation."""
        event = self.scene.trace.maker(out)
        if event is None or before.value.shape != out.value.shape or before not in event.ins:
            return False
        step = _clamp(event) or _scalar(event, before, out) or _activation(before, out)
        if step is None and not self._biased(event, before, out):
            return False
        if step is not None and step != Scaled(1.0):
            self.passed.append(step)
        self.at -= 1
        return True

    def _biased(self, event: Event, before: Seen, out: Seen) -> bool:
        given = [seen for seen in event.ins if seen.parameter]
        if len(given) != 1 or self.bias or relative(before.value + given[0].value, out.value) > EXACT:
            return False
        spread = self._columns(Seen(given[0].value.expand(out.value.shape), None, None))[0, self.index]
        self.bias = (given[0].parameter or "", spread)
        return True

    def _with_bias(self, product: Product) -> Product:
        if self.bias is None:
            return product
        name, spread = self.bias
        full = self.scene.parameter(name).detach().float().flatten()
        if product.bias or full.shape[0] != product.outs or not torch.equal(full[self.index], spread):
            raise UnexplainedError(self.block.module, (), f"{name} is added, but not as the bias of {product.weight}")
        return replace(product, bias=name)

    def _spanning(self, out: Seen) -> bool:
        """A norm or a rotation, which several calls make."""
        best: tuple[int, Step] | None = None
        for at in range(self.at - 1, max(-1, self.at - REACH), -1):
            before = self.points[at]
            if before.value.shape != out.value.shape or before.value.is_complex():
                continue
            events = spanned(self.scene.trace, before, out)
            norm = fit_head_norm(self.scene, before.value, out.value, events, self.index)
            if norm is not None and (best is None or norm.error <= 10 * max(best[1].error, 1e-6)):
                best = at, norm
            if best is None:
                tried = self._rotations(before, out)
                if tried and tried[0][0] < EXACT:
                    best = at, Rotated(tuple(tried))
                    break
                stretched = self._stretched(before, out)
                if stretched:
                    self.at, self.passed = at, [*self.passed, *stretched]
                    return True
        if best is None:
            return False
        self.at, step = best
        self.passed.append(step)
        return True

    def _rotations(self, before: Seen, out: Seen) -> list[tuple[float, Rope]]:
        old = self._columns(before)[:, self.index].transpose(0, 1)
        new = self._columns(out)[:, self.index].transpose(0, 1)
        return fit_rope(self.scene.config, self.block.layer, old, new) if old.shape[-1] > 1 else []

    def _stretched(self, before: Seen, out: Seen) -> list[Step]:
        """A rotation of what one number multiplied; a rotation alone keeps lengths."""
        old, new = before.value.float().flatten(), out.value.float().flatten()
        factor = float(new.norm() / old.norm())
        if abs(factor - 1) < 1e-4:
            return []
        larger = Seen(before.value * factor, None, None)
        tried = self._rotations(larger, out)
        if not tried or tried[0][0] > EXACT:
            return []
        numbers = [x for event in between(self.scene.trace, before, out) for x in event.args if isinstance(x, float)]
        return [Rotated(tuple(tried)), Scaled(snapped(factor, numbers))]

    def _give_up(self, out: Seen, before: Seen) -> None:
        near: list[tuple[float, Rope]] = []
        for at in range(self.at - 1, max(-1, self.at - REACH), -1):
            if self.points[at].value.shape == out.value.shape and not self.points[at].value.is_complex():
                near += self._rotations(self.points[at], out)
        near.sort(key=lambda pair: pair[0])
        said = tuple((f"rope {r.style} {r.rotary_dim.number} theta {r.theta.number}", error) for error, r in near[:3])
        calls = [event.name for event in between(self.scene.trace, before, out)]
        raise UnexplainedError(self.block.module, said, f"{' '.join(calls[:12])} is no norm, rotation, clamp or scale")


def walk(scene: Scene, block: Block, target: Seen, index: torch.Tensor) -> Chain:
    """From the elements `index` of a tensor back to the first product with a parameter, at most to the block's input.

    Raises:
        UnexplainedError: a step is none of the known ones.
    """
    points = waypoints(scene.trace, block.x, target)
    if not points:
        raise UnexplainedError(block.module, (), "heads that do not come from the block's input")
    return Walk(scene, block, points, index, len(points) - 1, []).run()


def _clamp(event: Event) -> Step | None:
    if event.name not in ("clamp", "clamp_", "clip", "clip_"):
        return None
    given = dict(zip(("min", "max"), event.args[1:], strict=False)) | event.kwargs
    low, high = given.get("min"), given.get("max")
    return Clipped(float(high)) if isinstance(high, int | float) and low == -high else None


def _scalar(event: Event, before: Seen, out: Seen) -> Step | None:
    others = [seen for seen in event.ins if seen is not before]
    if event.name in ("clamp", "clamp_", "where", "masked_fill") or any(seen.value.numel() > 1 for seen in others):
        return None
    old, new = before.value.double().flatten(), out.value.double().flatten()
    ratio = float((old @ new) / (old @ old).clamp(min=1e-30))
    if relative(old * ratio, new) > 1e-6:
        return None
    numbers = [float(leaf) for leaf in event.args if isinstance(leaf, int | float)]
    numbers += [float(seen.value) for seen in others]
    return Scaled(snapped(ratio, numbers))


def _activation(before: Seen, out: Seen) -> Step | None:
    for name, function in ACTIVATIONS.items():
        if relative(function(before.value.float()), out.value.float()) < EXACT:
            return Activated(name)
    return None
