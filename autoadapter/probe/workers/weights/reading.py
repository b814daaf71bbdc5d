"""Reads a checkpoint folder into a spec's parameters."""

from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from autoadapter.artifacts.decoder import DecoderSpec, LayerKind, WeightSource
from autoadapter.probe.workers.weights.cutting import cut
from autoadapter.probe.workers.weights.rows import num_experts


def checkpoint_tensors(folder: Path) -> dict[str, Tensor]:
    """Every tensor of a folder's safetensors files, by name."""
    tensors: dict[str, Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        tensors |= load_file(path)
    return tensors


def read_parameters(spec: DecoderSpec, folder: Path) -> dict[str, Tensor]:
    """The spec's parameters out of a checkpoint, following its weight sources.

    Raises:
        KeyError: the checkpoint lacks a tensor that is not optional; the message is its name.
    """
    return assemble(spec, checkpoint_tensors(folder))


def assemble(spec: DecoderSpec, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The spec's parameters out of a checkpoint's tensors.

    Raises:
        KeyError: a tensor that is not optional is missing; the message is its name.
    """
    parameters: dict[str, Tensor] = {}
    for source in spec.weights:
        for kind, layer in layers_of(spec, source):
            parts = _parts(source, kind, layer, tensors)
            parameters |= {target.format(layer=layer): part for target, part in parts.items()}
    return parameters


def layers_of(spec: DecoderSpec, source: WeightSource) -> Iterator[tuple[LayerKind | None, int]]:
    """Kind and number of each layer that has the source; once (None, 0) for what is not of a layer."""
    if "{layer}" not in source.checkpoint:
        yield None, 0
        return
    for layer, kind in enumerate(spec.pattern.kinds):
        if not source.kinds or kind in source.kinds:
            yield spec.kinds[kind], layer


def _parts(source: WeightSource, kind: LayerKind | None, layer: int, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    if source.experts == "named":
        count = num_experts(kind, source.targets[0])
        names = [source.checkpoint.format(layer=layer, expert=expert) for expert in range(count)]
        each = [cut(kind, source, tensors[name]) for name in names]
        return {
            target: torch.stack(parts) for target, parts in zip(source.targets, zip(*each, strict=True), strict=True)
        }
    name = source.checkpoint.format(layer=layer)
    if source.optional and name not in tensors:
        return {}
    return dict(zip(source.targets, cut(kind, source, tensors[name]), strict=True))
