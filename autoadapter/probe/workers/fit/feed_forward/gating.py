"""What happens between the products that read the input and the product that writes the output."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor

from autoadapter.artifacts.decoder import Activation
from autoadapter.probe.workers.replay.norms import activated
from autoadapter.probe.workers.replay.scope import Scope

SWIGLUOAI_ALPHA = 1.702
ROUNDING = 2e-5
"""Largest error, relative to the largest element, that float32 arithmetic in another order explains."""
SAME = ({"gelu_new", "gelu_pytorch_tanh"},)
"""Names for one function: no evidence for the one against the other."""

Layout = Literal["up", "gate,up", "up,gate", "gate|up", "up|gate", "interleaved", "interleaved_up"]
"""Where the branches are: `up`: no gate; `gate,up`: two products in that order; `gate|up`: halves of one;
`interleaved`: its even columns are the gate, `interleaved_up`: its odd ones."""


@dataclass(frozen=True)
class Gating:
    """One way from pre-activations to the inner state."""

    layout: Layout
    activation: Activation
    scale: float | None = None
    """Of the gate."""
    limit: float | None = None
    swigluoai: bool = False
    alphas: tuple[str, str] | None = None
    """The parameters alpha_p and alpha_n of xIELU."""

    @property
    def gated(self) -> bool:
        """Whether there are two branches."""
        return self.layout != "up"


@dataclass(frozen=True)
class GatingFit:
    """The best candidate, and the best with another activation."""

    best: Gating
    error: float
    runner_up: Gating | None
    runner_up_error: float | None


@dataclass(frozen=True)
class Hints:
    """Numbers and parameters that the block's calls mention."""

    scales: tuple[float, ...] = ()
    limits: tuple[float, ...] = ()
    singles: tuple[tuple[str, Tensor], ...] = ()
    """Parameters of one element."""


def branches(layout: Layout, made: tuple[Tensor, ...]) -> tuple[Tensor | None, Tensor] | None:
    """Gate and up out of what the products made [rows, width]; None where the layout does not suit them."""
    if layout == "up":
        return (None, made[0]) if len(made) == 1 else None
    if "," in layout:
        if len(made) != 2:
            return None
        return made if layout == "gate,up" else (made[1], made[0])
    if len(made) != 1 or made[0].shape[-1] % 2:
        return None
    if "|" in layout:
        first, second = made[0].chunk(2, dim=-1)
    else:
        first, second = made[0][..., ::2], made[0][..., 1::2]
    return (first, second) if layout in ("gate|up", "interleaved") else (second, first)


def inner(gating: Gating, made: tuple[Tensor, ...], alphas: dict[str, Tensor]) -> Tensor | None:
    """The inner state under a candidate."""
    pair = branches(gating.layout, made)
    if pair is None:
        return None
    gate, up = pair
    own = (
        Scope({})
        if gating.alphas is None
        else Scope({"alpha_p": alphas[gating.alphas[0]], "alpha_n": alphas[gating.alphas[1]]})
    )
    if gate is None:
        return activated(gating.activation, own, up)
    gate = gate if gating.scale is None else gate * gating.scale
    if gating.limit is not None:
        gate, up = gate.clamp(max=gating.limit), up.clamp(-gating.limit, gating.limit)
    if gating.swigluoai:
        return (up + 1) * gate * torch.sigmoid(SWIGLUOAI_ALPHA * gate)
    return activated(gating.activation, own, gate) * up


def fit_gating(made: tuple[Tensor, ...], state: Tensor, hints: Hints) -> GatingFit | None:
    """The candidate that gives `state` [rows, intermediate] out of what the products made [rows, …]; None if none does.

    The error of the best may be anything: whoever calls decides.
    """
    made, state = tuple(part.double() for part in made), state.double()
    alphas = {name: value.double() for name, value in hints.singles}
    found: list[tuple[float, Gating]] = []
    for wave in _waves(hints):
        for candidate in wave:
            fitted = inner(candidate, made, alphas)
            if fitted is not None and fitted.shape == state.shape:
                found.append((relative(fitted, state), candidate))
        if found and min(found, key=lambda one: one[0])[0] <= ROUNDING:
            break
    if not found:
        return None
    found.sort(key=lambda one: one[0])
    error, best = found[0]
    others = [one for one in found if _differs(one[1], best)]
    other = others[0] if others else None
    return GatingFit(best, error, other[1] if other else None, other[0] if other else None)


def relative(fitted: Tensor, seen: Tensor) -> float:
    """Largest absolute difference over the largest element of `seen`; infinite where shapes or numbers fail."""
    if fitted.shape != seen.shape or not seen.numel():
        return float("inf")
    error = float((fitted - seen).abs().max() / seen.abs().max().clamp(min=1e-30))
    return error if error == error else float("inf")


def _differs(one: Gating, best: Gating) -> bool:
    """Whether evidence for the activation can come of the pair."""
    alike = replace(one, activation=best.activation) == best
    return alike and not any({one.activation, best.activation} <= same for same in SAME) and one != best


def _waves(hints: Hints) -> Iterator[list[Gating]]:
    plain = list(_plain())
    limited = [replace(one, limit=limit) for one in plain if one.gated for limit in hints.limits]
    yield limited + plain  # a limit that no element reaches is still one: of equals the first is taken
    yield [replace(one, scale=scale) for one in (*limited, *plain) if one.gated for scale in hints.scales]
    yield [
        Gating(layout, "silu", limit=limit, swigluoai=True)
        for layout in get_args(Layout)
        if layout != "up"
        for limit in (*hints.limits, None)
    ]
    yield list(_xielu(hints))


def _plain() -> Iterable[Gating]:
    for layout in get_args(Layout):
        for activation in get_args(Activation):
            if activation != "xielu":
                yield Gating(layout, activation)


def _xielu(hints: Hints) -> Iterator[Gating]:
    names = [name for name, _ in hints.singles]
    for first in names:
        for second in names:
            if first != second:
                for layout in get_args(Layout):
                    yield Gating(layout, "xielu", alphas=(first, second))
