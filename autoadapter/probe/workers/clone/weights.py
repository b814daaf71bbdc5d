"""Random weights under which every path matters: norms that are not one, biases that are not zero, tables that differ.

What a parameter is follows from its fresh value and its shape, not from its name.
"""

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from autoadapter.probe.workers.clone.keys import Stated

NORM_SPREAD = 0.4
BIAS = 0.2
EMBEDDING = 0.5
SMALL = 0.1
"""Below it lies what an implementation draws as a weight; above it is what was computed."""
JITTER = 0.1
BEYOND = 2.5
"""Standard deviations of an activation, of which one in a hundred is larger."""
GATED_SIZES = ("moe_intermediate", "intermediate")


def initialise(model: nn.Module, seed: int) -> dict[int, str]:
    """Give all parameters and stored buffers new values, in place.

    Returns:
        id of a parameter → `ones`, `zeros`, `random` or `structured`: what it was when it was fresh.
    """
    generator = torch.Generator().manual_seed(seed)
    fresh: dict[int, str] = {}
    stored = set(model.state_dict())
    for path, module in model.named_modules():
        buffers = {
            name: buffer
            for name, buffer in module.named_buffers(recurse=False)
            if f"{path}.{name}".lstrip(".") in stored
            and buffer.is_floating_point()
            and buffer.numel() > 1
            and kind_of(buffer) in ("ones", "zeros")  # anything else was computed: rotary tables, masks
        }
        for tensor in [*module.parameters(recurse=False), *buffers.values()]:
            if id(tensor) not in fresh and tensor.numel():
                fresh[id(tensor)] = kind_of(tensor)
                with torch.no_grad():
                    tensor.copy_(_drawn(tensor, module, fresh[id(tensor)], generator))
    return fresh


def kind_of(tensor: torch.Tensor) -> str:
    """What a fresh tensor looks like."""
    tensor = tensor.detach()
    if bool((tensor == 1).all()):
        return "ones"
    if bool((tensor == 0).all()):
        return "zeros"
    constant = bool((tensor == tensor.flatten()[0]).all())
    small = float(tensor.abs().mean()) < SMALL
    if _is_matrix(tensor):
        wide = float(tensor.std()) > 0.7 or abs(float(tensor.mean())) > SMALL
        return "structured" if wide else "random"
    return "random" if small and not constant else "structured"


def _is_matrix(tensor: torch.Tensor) -> bool:
    return sum(size > 1 for size in tensor.shape) > 1


def _drawn(tensor: torch.Tensor, module: nn.Module, kind: str, generator: torch.Generator) -> torch.Tensor:
    uniform = torch.rand(tensor.shape, generator=generator) * 2 - 1
    normal = torch.randn(tensor.shape, generator=generator)
    if isinstance(module, nn.Embedding):
        return normal * EMBEDDING
    if kind == "structured":
        return tensor * (1 + JITTER * uniform)
    if kind == "ones":
        return 1 + NORM_SPREAD * uniform
    if _is_matrix(tensor):
        return normal * _inputs(tensor, module) ** -0.5
    alone = not any(_is_matrix(other) for other in module.parameters(recurse=False))
    if kind == "zeros" and alone and tensor.numel() > 1:
        return NORM_SPREAD * uniform
    return normal * BIAS


def _inputs(tensor: torch.Tensor, module: nn.Module) -> int:
    """How many products are summed for one output."""
    if isinstance(module, Conv1D):
        return tensor.shape[0]
    if isinstance(module, nn.modules.conv._ConvNd):
        return tensor[0].numel()
    return tensor.shape[-1]


def meet_bounds(model: nn.Module, stated: Stated) -> None:
    """Enlarge stacked gate and up projections where the config bounds their results, so that some lie beyond."""
    bound, rows = stated.number("kept_bound"), {2 * stated.count(role) for role in GATED_SIZES}
    for parameter in model.parameters():
        if bound and parameter.ndim == 3 and rows & set(parameter.shape[1:]):
            with torch.no_grad():
                parameter.mul_(max(1.0, bound / BEYOND))
