"""Cuts fused tensors into the parameters that they hold: the one place where `WeightSource`'s rule is carried out."""

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from autoadapter.artifacts.decoder import LayerKind, WeightSource
from autoadapter.probe.workers.fit.fitted import ParameterUse
from autoadapter.probe.workers.weights.rows import OF_LAYER, num_experts, rows

VECTORS = ("router.correction",)
"""Parameters of one axis, which some references keep with a leading axis of one element."""


def cut(kind: LayerKind | None, how: WeightSource | ParameterUse, tensor: Tensor) -> tuple[Tensor, ...]:
    """One tensor → its targets, in order; with the experts first where the tensor holds those of all.

    Args:
        kind: the layer's: sizes are read off it; None for what is not of a layer.
        how: targets, groups, orientation, experts.
        tensor: as the checkpoint or the reference holds it.
    """
    if tensor.ndim == 2 and how.targets[0].endswith(VECTORS):
        tensor = tensor.squeeze(0)
    if how.experts == "rows":
        tensor = tensor.unflatten(0, (num_experts(kind, how.targets[0]), -1))
    if how.transposed:
        tensor = tensor.transpose(-1, -2)
    if len(how.targets) == 1:
        return (tensor.contiguous(),)
    dim = 1 if how.experts in ("leading", "rows") else 0
    groups = int(how.groups.number)
    sizes = [rows(kind, target) // groups for target in how.targets]
    parts = tensor.unflatten(dim, (groups, -1)).split(sizes, dim=dim + 1)
    return tuple(part.flatten(dim, dim + 1) for part in parts)


def parameters_of(
    layers: Sequence[LayerKind], tensors: Mapping[str, Tensor], uses: Iterable[ParameterUse]
) -> dict[str, Tensor]:
    """The spec's parameters out of the reference's.

    Args:
        layers: the kind of each.
        tensors: the reference's parameters and buffers by their names in it.
        uses: with spec names as targets: `layers.3.0.q_proj.weight`.
    """
    result: dict[str, Tensor] = {}
    experts: dict[str, dict[int, Tensor]] = {}
    for use in uses:
        found = OF_LAYER.fullmatch(use.targets[0])
        kind = layers[int(found["layer"])] if found else None
        for target, part in zip(use.targets, cut(kind, use, tensors[use.parameter].detach()), strict=True):
            if use.expert is None:
                result[target] = part
            else:
                experts.setdefault(target, {})[use.expert] = part
    stacked = {name: torch.stack([parts[i] for i in range(len(parts))]) for name, parts in experts.items()}
    return result | stacked
