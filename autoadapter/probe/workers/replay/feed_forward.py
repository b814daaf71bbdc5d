"""MLPs, and blocks that run in the reference."""

import torch
from torch import Tensor

from autoadapter.artifacts.decoder import Mlp, Opaque
from autoadapter.probe.workers.replay.norms import activated, normed, scaled
from autoadapter.probe.workers.replay.scope import Scope, Setting

SWIGLUOAI_ALPHA = 1.702


def mlp(mixer: Mlp, scope: Scope, x: Tensor, setting: Setting) -> Tensor:  # noqa: ARG001
    """The block of x [..., hidden] → [..., hidden]."""
    return feed_forward(mixer, scope, x)


def feed_forward(part: Mlp, scope: Scope, x: Tensor, *, swigluoai: bool = False) -> Tensor:
    """The block of x [..., hidden] → [..., hidden]; `swigluoai` is `Moe.activation_kind`."""
    inner = normed(part.inner_norm, scope.below("inner_norm"), _inner(part, scope, x, swigluoai))
    return scaled(scope.linear("down_proj", inner, bias=part.down_bias), part.down_scale)


def opaque(mixer: Opaque, scope: Scope, x: Tensor, setting: Setting) -> Tensor:
    """Run x [tokens, hidden] through the reference's module under this layer's parameters."""
    if setting.model is None:
        raise ValueError(f"{mixer.module} is carried over: replaying it takes the reference")
    module = setting.model.get_submodule(mixer.module)
    own = {name: scope[name] for name, _ in (*module.named_parameters(), *module.named_buffers()) if name in scope}
    result = torch.func.functional_call(module, own, (x[None],))
    return (result[0] if isinstance(result, tuple) else result).reshape(x.shape)


def _inner(part: Mlp, scope: Scope, x: Tensor, swigluoai: bool) -> Tensor:
    up = scope.linear("up_proj", x, bias=part.up_bias)
    if not part.gated:
        return activated(part.activation, scope.below("activation"), up)
    gate = scaled(scope.linear("gate_proj", x, bias=part.up_bias), part.gate_scale)
    if part.gate_limit is not None:
        limit = part.gate_limit.number
        gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
    if swigluoai:
        return (up + 1) * gate * torch.sigmoid(SWIGLUOAI_ALPHA * gate)
    return activated(part.activation, scope.below("activation"), gate) * up
