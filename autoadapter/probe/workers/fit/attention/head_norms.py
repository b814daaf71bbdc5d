"""Norms of queries, keys and values: over a head, over all heads, or with a weight for each head."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch

from autoadapter.artifacts.decoder import Norm
from autoadapter.probe.workers.fit.attention.flow import relative
from autoadapter.probe.workers.fit.binding import bind
from autoadapter.probe.workers.fit.fitted import Fitted, ParameterUse, UnexplainedError
from autoadapter.probe.workers.fit.norms import fit_norm
from autoadapter.probe.workers.scene import Scene
from autoadapter.probe.workers.trace import Event

Width = Literal["head", "full", "per_head_weight"]
EPS_KEYS = ("rms_norm_eps", "layer_norm_eps", "norm_eps", "layer_norm_epsilon", "norm_epsilon", "qk_norm_eps")
EXACT = 1e-5
KINDS: tuple[Literal["rms", "layer", "l2"], ...] = ("rms", "layer", "l2")


@dataclass(frozen=True)
class HeadNorm:
    """A norm on the way from a product to the heads."""

    width: Width
    fitted: Fitted[Norm]

    @property
    def error(self) -> float:
        """Relative error of the norm alone."""
        return self.fitted.error


def fit_head_norm(
    scene: Scene, x: torch.Tensor, y: torch.Tensor, events: tuple[Event, ...], index: torch.Tensor
) -> HeadNorm | None:
    """The norm that makes y from x over their last axis, or None; `index` [heads, dim] says how wide a head is."""
    dim = index.shape[1]
    if x.shape[-1] % dim and dim % x.shape[-1]:
        return None
    try:
        fitted = fit_norm(scene, x, y, events)
    except UnexplainedError:
        return _per_head(scene, x, y, events, dim)
    if fitted.error > EXACT:
        return None
    own = any(scene.parameter(use.parameter).numel() > x.shape[-1] for use in fitted.uses)
    return HeadNorm("per_head_weight" if own else "head" if x.shape[-1] == dim else "full", fitted)


def _per_head(scene: Scene, x: torch.Tensor, y: torch.Tensor, events: tuple[Event, ...], dim: int) -> HeadNorm | None:
    """A norm over each head under weights of their own: one parameter of [heads × dim], or one a head."""
    if x.shape[-1] != dim or x.ndim < 3:
        return None
    tried = []
    for names in _weights(scene, events, dim):
        weight = torch.cat([scene.parameter(name).detach().flatten() for name in names] or [torch.ones(dim)])
        spread = _spread(weight.float().reshape(-1, dim), x)
        for kind, eps in itertools.product(KINDS, _eps(scene.config) if spread is not None else ()):
            error = relative(_normed(kind, x.float(), float(eps.number)) * spread, y.float())
            tried.append((error, Norm(kind=kind, eps=eps), names))
    error, norm, names = min(tried, key=lambda one: one[0], default=(1.0, None, []))
    if norm is None or error > EXACT:
        return None
    uses = tuple(
        ParameterUse(
            name, ("weight",), experts="named" if len(names) > 1 else "none", expert=at if len(names) > 1 else None
        )
        for at, name in enumerate(names)
    )
    return HeadNorm("per_head_weight", Fitted(norm, error, (), uses))


def _weights(scene: Scene, events: tuple[Event, ...], dim: int) -> Iterator[list[str]]:
    names = list(dict.fromkeys(seen.parameter for event in events for seen in event.ins if seen.parameter))
    sizes = {name: scene.parameter(name).numel() for name in names}
    yield from ([name] for name in names if sizes[name] % dim == 0 and sizes[name] > dim)
    own = [name for name in names if sizes[name] == dim]
    yield from ([own] if len(own) > 1 else [])


def _spread(weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor | None:
    """[heads, dim] shaped to multiply x, whose head axis has that many."""
    axis = next((at for at in range(x.ndim - 2, 0, -1) if x.shape[at] == weight.shape[0]), None)
    if axis is None:
        return None
    shape = [1] * x.ndim
    shape[axis], shape[-1] = weight.shape
    return weight.reshape(shape)


def _normed(kind: str, x: torch.Tensor, eps: float) -> torch.Tensor:
    if kind == "layer":
        x = x - x.mean(-1, keepdim=True)
    power = x.pow(2).sum(-1, keepdim=True) if kind == "l2" else x.pow(2).mean(-1, keepdim=True)
    return x * torch.rsqrt(power + eps)


def _eps(config: Any) -> Iterator[Any]:
    for number in (1e-6, 1e-5, 1e-8, 1e-12):
        yield bind(config, number, EPS_KEYS)
    for key in EPS_KEYS:
        value = getattr(config, key, None)
        if isinstance(value, float):
            yield bind(config, value, (key,))
