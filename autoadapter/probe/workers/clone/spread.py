"""Brings the activations of a clone to a size that hides nothing: what enters the layers, and the logits."""

from typing import Any

import torch
from torch import nn

from autoadapter.probe.workers.clone.loading import logits_of

LOGITS_STD = 2.0
INPUT_SIZE = 0.5
"""Of what the first layer reads: layers add about one each, and an error in one of them shows."""
ROUNDS = 4


def spread(model: nn.Module, ids: torch.Tensor, fresh: dict[int, str]) -> float:
    """Scale embeddings and head in place until what layers read and the logits have their sizes.

    Returns:
        The standard deviation of the logits.
    """
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    size = _size_at_layers(model, ids)
    if size:
        with torch.no_grad():
            embedding.weight.mul_(INPUT_SIZE / size)
    weight = getattr(head, "weight", None)
    tied = weight is None or weight is embedding.weight
    std = float(logits_of(model, ids).std())
    for _ in range(ROUNDS):
        if not 0.8 < std / LOGITS_STD < 1.25:
            _scale(model, ids, head if not tied else None, LOGITS_STD / std, fresh)
            std = float(logits_of(model, ids).std())
    return std


def _size_at_layers(model: nn.Module, ids: torch.Tensor) -> float:
    """Root mean square of what the first of the layers reads; 0 where there is no list of layers."""
    lists = [module for module in model.modules() if isinstance(module, nn.ModuleList) and len(module)]
    if not lists:
        return 0.0
    seen: list[torch.Tensor] = []

    def look(module: nn.Module, args: Any, kwargs: Any) -> None:  # noqa: ARG001
        tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
        seen.extend(value for value in tensors[:1] if value.is_floating_point())

    hook = max(lists, key=len)[0].register_forward_pre_hook(look, with_kwargs=True)
    logits_of(model, ids)
    hook.remove()
    return float(seen[0].square().mean().sqrt()) if seen else 0.0


def _scale(model: nn.Module, ids: torch.Tensor, head: nn.Module | None, factor: float, fresh: dict[int, str]) -> None:
    """Scale the head; where it is tied, the norm before it."""
    scaled = list(head.parameters(recurse=False)) if head is not None else _last_norm(model, ids)
    with torch.no_grad():
        for parameter in scaled:
            if head is None and len(scaled) == 1 and fresh.get(id(parameter)) == "zeros":  # a norm of 1 + w
                parameter.copy_((1 + parameter) * factor - 1)
            else:
                parameter.mul_(factor)


def _last_norm(model: nn.Module, ids: torch.Tensor) -> list[nn.Parameter]:
    """Parameters of the last module before the head that has vectors alone."""
    last: list[nn.Module] = []
    reached: list[bool] = []

    def note(module: nn.Module, args: Any, result: Any) -> None:  # noqa: ARG001
        if not reached:
            last[:] = [module]

    modules = [module for module in model.modules() if _only_vectors(module)]
    hooks = [module.register_forward_hook(note) for module in modules]
    head = model.get_output_embeddings()
    hooks.append(head.register_forward_pre_hook(lambda module, args: reached.append(True)))  # noqa: ARG005
    logits_of(model, ids)
    for hook in hooks:
        hook.remove()
    return list(last[0].parameters()) if last else []


def _only_vectors(module: nn.Module) -> bool:
    parameters = list(module.parameters())
    return bool(parameters) and all(parameter.ndim == 1 for parameter in parameters)
