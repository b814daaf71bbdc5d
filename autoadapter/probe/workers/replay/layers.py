"""Mixers by type, branches, layers."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from autoadapter.artifacts.decoder import (
    Attention,
    Branch,
    GatedDeltaNet,
    LatentAttention,
    LayerKind,
    Mamba2,
    Mlp,
    Moe,
    Opaque,
    ShortConv,
)
from autoadapter.probe.workers.replay.attention import attention
from autoadapter.probe.workers.replay.feed_forward import mlp, opaque
from autoadapter.probe.workers.replay.latent import latent_attention
from autoadapter.probe.workers.replay.moe import moe
from autoadapter.probe.workers.replay.norms import normed, scaled
from autoadapter.probe.workers.replay.recurrent import gated_delta_net, mamba2, short_conv
from autoadapter.probe.workers.replay.scope import Scope, Setting

MIXERS: dict[type, Callable[[Any, Scope, Tensor, Setting], Tensor]] = {
    Attention: attention,
    LatentAttention: latent_attention,
    Mamba2: mamba2,
    ShortConv: short_conv,
    GatedDeltaNet: gated_delta_net,
    Mlp: mlp,
    Moe: moe,
    Opaque: opaque,
}


def layer_output(kind: LayerKind, scope: Scope, x: Tensor, setting: Setting) -> Tensor:
    """One layer's input [tokens, hidden] → its output; `scope` holds the branches `0.…`, `1.…`."""
    stream = x
    inputs: list[Tensor] = []
    for index, branch in enumerate(kind.branches):
        own = scope.below(str(index))
        source = x if branch.reads == "layer_input" else stream
        inputs.append(_input(branch, own, source, inputs))
        stream = _joined(branch, own, stream, inputs[-1], setting)
    return stream


def _input(branch: Branch, scope: Scope, source: Tensor, earlier: list[Tensor]) -> Tensor:
    if branch.shares_norm_with is not None:
        return earlier[branch.shares_norm_with]
    return normed(branch.input_norm, scope.below("input_norm"), source)


def _joined(branch: Branch, scope: Scope, stream: Tensor, x: Tensor, setting: Setting) -> Tensor:
    mixed = MIXERS[type(branch.mixer)](branch.mixer, scope, scaled(x, branch.input_scale), setting)
    mixed = scaled(normed(branch.output_norm, scope.below("output_norm"), mixed), branch.output_scale)
    kept = scaled(x if branch.keeps_normed else stream, branch.stream_scale)
    return normed(branch.post_norm, scope.below("post_norm"), kept + mixed)
