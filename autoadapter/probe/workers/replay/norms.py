"""Normalisations and activations."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from autoadapter.artifacts.decoder import Activation, Norm, Value
from autoadapter.probe.workers.replay.scope import Scope

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_new": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_pytorch_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "relu": F.relu,
    "relu2": lambda x: F.relu(x).square(),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}
XIELU_BETA = 0.5
XIELU_EPS = -1e-6


def normed(norm: Norm | None, scope: Scope, x: Tensor) -> Tensor:
    """Normalise x [..., width]; x itself without a norm."""
    if norm is None:
        return x
    y = _parted(norm, x)
    if norm.weight != "none":
        y = y * (scope["weight"] + (1 if norm.weight == "one_plus" else 0))
    return y + scope["bias"] if norm.bias else y


def activated(activation: Activation, scope: Scope, x: Tensor) -> Tensor:
    """Put x through the activation; `scope` holds `alpha_p` and `alpha_n` of xIELU."""
    return _xielu(scope, x) if activation == "xielu" else ACTIVATIONS[activation](x)


def scaled(x: Tensor, scale: Value | None) -> Tensor:
    """Return x times a scale that may not be there."""
    return x if scale is None else x * scale.number


def softcapped(x: Tensor, cap: Value | None) -> Tensor:
    """Return x squeezed into ± cap."""
    return x if cap is None else cap.number * torch.tanh(x / cap.number)


def _parted(norm: Norm, x: Tensor) -> Tensor:
    if norm.groups is None:
        return _unweighted(norm, x)
    return _unweighted(norm, x.unflatten(-1, (int(norm.groups.number), -1))).flatten(-2)


def _unweighted(norm: Norm, x: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True) if norm.kind == "layer" else x
    square = centred.square()
    size = square.sum(-1, keepdim=True) if norm.kind == "l2" else square.mean(-1, keepdim=True)
    return centred * torch.rsqrt(size + norm.eps.number)


def _xielu(scope: Scope, x: Tensor) -> Tensor:
    positive = F.softplus(scope["alpha_p"])
    negative = XIELU_BETA + F.softplus(scope["alpha_n"])
    left = (torch.expm1(torch.clamp_max(x, XIELU_EPS)) - x) * negative
    return torch.where(x > 0, positive * x * x, left) + XIELU_BETA * x
