"""Computes a `DecoderSpec` in plain torch: the executable meaning of every field."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from autoadapter.artifacts.decoder import DecoderSpec
from autoadapter.probe.workers.replay.ends import embedded, headed
from autoadapter.probe.workers.replay.layers import layer_output
from autoadapter.probe.workers.replay.norms import normed
from autoadapter.probe.workers.replay.scope import Scope, Setting

__all__ = ["replay", "replay_layer"]


@torch.no_grad()
def replay(
    spec: DecoderSpec,
    parameters: Mapping[str, Tensor],
    ids: Tensor,
    config: Any,
    *,
    model: nn.Module | None = None,
) -> Tensor:
    """The logits of a single sequence.

    Args:
        spec: what to compute.
        parameters: float32, by spec name: `embed.weight`, `layers.3.0.q_proj.weight`.
        ids: [tokens] or [1, tokens].
        config: the text config that `Rope.parameters` points into: an object or a dict.
        model: the reference; only needed with blocks that are carried over.

    Returns:
        [tokens, vocabulary]
    """
    scope = Scope(parameters)
    x = embedded(spec.embedding, scope, ids.flatten())
    for layer in range(len(spec.pattern.kinds)):
        x = replay_layer(spec, parameters, layer, x, Setting(config, model))
    return headed(spec.head, scope, normed(spec.norm, scope.below("norm"), x))


@torch.no_grad()
def replay_layer(
    spec: DecoderSpec, parameters: Mapping[str, Tensor], layer: int, x: Tensor, setting: Setting
) -> Tensor:
    """One layer alone: its input [tokens, hidden] → its output."""
    kind = spec.kinds[spec.pattern.kinds[layer]]
    return layer_output(kind, Scope(parameters, f"layers.{layer}."), x, setting)
