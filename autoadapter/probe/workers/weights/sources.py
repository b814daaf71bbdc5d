"""From a checkpoint folder and a fitted reference to weight sources, with every tensor accounted for."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from torch import Tensor, nn

from autoadapter.artifacts.decoder import DecoderSpec, Value, WeightSource
from autoadapter.probe.workers.fit.fitted import ParameterUse, UnexplainedError
from autoadapter.probe.workers.weights.locating import Location, locate
from autoadapter.probe.workers.weights.lookup import Lookup
from autoadapter.probe.workers.weights.naming import UnnamedError, weight_sources
from autoadapter.probe.workers.weights.reading import assemble, checkpoint_tensors

NUMBER = re.compile(r"\d+")
DISTURBANCE = 0.5


def find_sources(
    spec: DecoderSpec,
    parameters: dict[str, Tensor],
    uses: tuple[ParameterUse, ...],
    folder: Path,
    reads: Callable[[str, Tensor], bool],
) -> tuple[tuple[WeightSource, ...], tuple[str, ...]]:
    """The weight sources of a spec, and the checkpoint tensors that nothing reads.

    Args:
        spec: fitted, without weights.
        parameters: its parameters by spec name.
        uses: with spec names as targets.
        folder: the checkpoint that the reference was loaded from.
        reads: tells whether the reference reads one of its tensors.

    Raises:
        UnexplainedError: a tensor is read by the reference and by no part of the spec, or the sources give other
            parameters than the reference holds.
    """
    tensors = {
        name: tensor.float() if tensor.is_floating_point() else tensor
        for name, tensor in checkpoint_tensors(folder).items()
    }
    lookup = Lookup(parameters)
    found = {name: locate(lookup, name, tensor, _hints(name, uses)) for name, tensor in tensors.items()}
    ignored = tuple(name for name, location in found.items() if location is None)
    for name in ignored:
        if reads(name, tensors[name]):
            raise UnexplainedError(name, (), "the reference reads this checkpoint tensor and no fitted part holds it")
    sources = _sources(spec, [location for location in found.values() if location], uses)
    _check(spec.model_copy(update={"weights": sources}), tensors, parameters)
    return sources, ignored


class Reads:
    """Whether a reference reads a tensor of its checkpoint, by disturbing it."""

    def __init__(self, model: nn.Module, ids: Tensor) -> None:
        """Run the model once: what it gives undisturbed."""
        self._model, self._ids = model, ids
        self._constants = {name for name, buffer in model.named_buffers() if buffer.ndim == 0}
        self._plain = self._run()

    def __call__(self, name: str, values: Tensor) -> bool:
        """True unless the model has no such tensor, or gives the same logits without it.

        A single number that is no parameter is a constant of the code: the spec holds it.
        """
        if values.ndim == 0 and name in self._constants:
            return False
        held = [tensor for own, tensor in self._own() if own == name or _same(tensor, values)]
        if not held or not held[0].is_floating_point():
            return False
        with torch.no_grad():
            kept = [tensor.clone() for tensor in held]
            for tensor in held:
                tensor.add_(DISTURBANCE)
            changed = self._run()
            for tensor, before in zip(held, kept, strict=True):
                tensor.copy_(before)
        return not torch.equal(changed, self._plain)

    def _own(self) -> Iterable[tuple[str, Tensor]]:
        return [*self._model.named_parameters(), *self._model.named_buffers()]

    def _run(self) -> Tensor:
        with torch.no_grad():
            return self._model(input_ids=self._ids, use_cache=False).logits


def _same(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and torch.equal(first.detach().to(second.dtype), second)


def _hints(name: str, uses: tuple[ParameterUse, ...]) -> tuple[str, ...]:
    """What the tensor would hold if its name in the checkpoint were like that in the reference."""
    exact = [use for use in uses if use.parameter == name]
    last, numbers = name.rpartition(".")[2], NUMBER.findall(name)
    alike = [u for u in uses if u.parameter.rpartition(".")[2] == last and NUMBER.findall(u.parameter) == numbers]
    return tuple(target for use in exact or alike for target in use.targets)


def _sources(spec: DecoderSpec, locations: list[Location], uses: tuple[ParameterUse, ...]) -> tuple[WeightSource, ...]:
    groups: dict[tuple[str, ...], Value] = {}
    for use in uses:
        groups[tuple(re.sub(r"^layers\.\d+\.", "layers.{layer}.", target) for target in use.targets)] = use.groups
    try:
        return weight_sources(spec, locations, groups)
    except UnnamedError as error:
        raise UnexplainedError("checkpoint", (), str(error)) from error


def _check(spec: DecoderSpec, tensors: dict[str, Tensor], parameters: dict[str, Tensor]) -> None:
    """The sources must give exactly what the reference holds."""
    read = assemble(spec, tensors)
    for name, tensor in parameters.items():
        if name not in read:
            raise UnexplainedError(name, (), "no checkpoint tensor holds this parameter")
        if not torch.equal(read[name].reshape(tensor.shape), tensor):
            raise UnexplainedError(name, (), "the checkpoint's sources give other values than the reference holds")
