"""Runs the reference once under the trace and finds its layers."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from autoadapter.probe.workers.fit.fitted import UnexplainedError
from autoadapter.probe.workers.fit.skeleton.flow import same_elements
from autoadapter.probe.workers.scene import Scene
from autoadapter.probe.workers.trace import Call, Seen, Trace

DEPTH_KEYS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers")


def watch(model: nn.Module, config: Any, ids: torch.Tensor) -> Scene:
    """One traced forward pass over `ids` [1, tokens], without a cache.

    Raises:
        UnexplainedError: no chain of modules passes hidden states on, or the model returns no logits.
    """
    model.eval()
    with torch.no_grad(), Trace(model) as trace:
        result = model(input_ids=ids, use_cache=False)
    logits = result.logits if hasattr(result, "logits") else result[0]
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    layers = tuple(call.path for call in layer_calls(trace, _depth(text)))
    if not layers:
        raise UnexplainedError("", (), "no chain of modules passes hidden states from one to the next")
    return Scene(model, text, ids, logits.detach().float(), trace, layers)


def call_of(scene: Scene, layer: int) -> Call:
    """The call of a layer; one module may be several layers."""
    path = scene.layers[layer]
    return scene.trace.calls_of(path)[scene.layers[:layer].count(path)]


def passed_on(before: Call, after: Call) -> Seen | None:
    """The tensor that a call returned and a later one was given."""
    if after.first < before.last:
        return None
    for out in before.outs:
        if out.value.is_floating_point() and out.value.ndim >= 2:
            for seen in after.ins:
                if seen is out or (seen.value.shape == out.value.shape and same_elements(seen.value, out.value)):
                    return seen
    return None


def layer_calls(trace: Trace, depth: int | None) -> list[Call]:
    """The calls of the decoder's layers: the longest chain of siblings, of the stated depth where there is one."""
    kinds = (_container, _parent, _grandparent, _kind_in(trace.model))
    chains = [[_longest(group) for group in _grouped(trace.calls, key)] for key in kinds]
    for fits in (lambda chain: len(chain) == depth, lambda chain: len(chain) > 1):
        for of_kind in chains:
            fitting = [chain for chain in of_kind if fits(chain)]
            if fitting:
                return max(fitting, key=lambda chain: sum(call.last - call.first for call in chain))
    return []


def _depth(config: Any) -> int | None:
    stated = (getattr(config, key, None) for key in DEPTH_KEYS)
    return next((value for value in stated if isinstance(value, int)), None)


def _grouped(calls: Iterable[Call], key: Any) -> list[list[Call]]:
    groups: dict[Any, list[Call]] = {}
    for call in calls:
        if call.path and key(call) is not None:
            groups.setdefault(key(call), []).append(call)
    return [sorted(group, key=lambda call: call.first) for group in groups.values()]


def _longest(calls: list[Call]) -> list[Call]:
    """The longest chain in which each call is given what the one before returned."""
    chains: list[list[Call]] = []
    for call in calls:
        before = max((chain for chain in chains if passed_on(chain[-1], call) is not None), key=len, default=[])
        chains.append([*before, call])
    return max(chains, key=len)


def _container(call: Call) -> str | None:
    parent, _, name = call.path.rpartition(".")
    return parent if name.isdigit() else None


def _parent(call: Call) -> str:
    return call.path.rpartition(".")[0]


def _grandparent(call: Call) -> str:
    return _parent(call).rpartition(".")[0]


def _kind_in(model: nn.Module) -> Any:
    return lambda call: type(model.get_submodule(call.path))
