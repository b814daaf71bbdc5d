"""Mixtures of experts."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from autoadapter.artifacts.decoder import Moe, Router
from autoadapter.probe.workers.replay.feed_forward import feed_forward
from autoadapter.probe.workers.replay.norms import normed, scaled, softcapped
from autoadapter.probe.workers.replay.scope import Scope, Setting

SCORES: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda logits: logits.softmax(-1),
    "sigmoid": torch.sigmoid,
    "softmax_topk": lambda logits: logits,
    "sqrt_softplus": lambda logits: F.softplus(logits).sqrt(),
}


def moe(mixer: Moe, scope: Scope, x: Tensor, setting: Setting) -> Tensor:  # noqa: ARG001
    """The block of x [tokens, hidden] → [tokens, hidden]."""
    weights = routed(mixer.router, scope, x)
    outputs = torch.zeros_like(x)
    for expert in weights.any(0).nonzero().flatten().tolist():
        tokens = weights[:, expert].nonzero().flatten()
        outputs[tokens] += _expert(mixer, scope.below("experts"), expert, x[tokens], weights[tokens, expert, None])
    return scaled(outputs + _shared(mixer, scope.below("shared"), x), mixer.output_scale)


def routed(router: Router, scope: Scope, x: Tensor) -> Tensor:
    """The weight of each expert for each token [tokens, experts], 0 where it is not chosen."""
    x = normed(router.input_norm, scope.below("router").below("input_norm"), x)
    logits = softcapped(scope.linear("router", x, bias=router.bias), router.softcap)
    if router.score == "sparsemixer" and router.jitter is not None:
        return scaled(sparsely_mixed(logits, int(router.top_k.number), router.jitter.number), router.scaling)
    scores = SCORES[router.score](logits)
    choice = scores + scope["router.correction"] if router.correction else scores
    chosen = _inside_groups(router, choice).topk(int(router.top_k.number), dim=-1).indices
    weights = scores.gather(-1, chosen)
    if router.score == "softmax_topk":
        weights = weights.softmax(-1)
    if router.renormalize:
        weights = weights / weights.sum(-1, keepdim=True)
    return torch.zeros_like(scores).scatter(-1, chosen, scaled(weights, router.scaling))


def sparsely_mixed(logits: Tensor, top_k: int, jitter: float) -> Tensor:
    """The weights [tokens, experts] that `sparsemixer` gives."""
    left, weights = logits, torch.zeros_like(logits)
    for _ in range(top_k):
        best, expert = left.max(-1, keepdim=True)
        distant = (best - logits) / logits.abs().clamp(min=best) > 2 * jitter
        share = left.masked_fill(distant, float("-inf")).softmax(-1).gather(-1, expert)
        weights = weights.scatter(-1, expert, share)
        left = left.scatter(-1, expert, float("-inf"))
    return weights


def _inside_groups(router: Router, choice: Tensor) -> Tensor:
    """`choice` [tokens, experts] with -inf outside the best groups."""
    if router.n_group is None or router.topk_group is None:
        return choice
    groups = choice.unflatten(-1, (int(router.n_group.number), -1))
    size = (
        groups.topk(min(2, groups.shape[-1]), dim=-1).values.sum(-1)
        if router.group_score == "top2_sum"
        else groups.amax(-1)
    )
    best = size.topk(int(router.topk_group.number), dim=-1).indices
    kept = torch.zeros_like(size, dtype=torch.bool).scatter(-1, best, True)
    return groups.masked_fill(~kept[..., None], float("-inf")).flatten(-2)


def _expert(mixer: Moe, scope: Scope, expert: int, x: Tensor, weight: Tensor) -> Tensor:
    own = Scope({name: tensor[expert] for name, tensor in scope.inside().items()})
    swigluoai = mixer.activation_kind == "swigluoai"
    if mixer.weight_on_input:
        return feed_forward(mixer.expert, own, x * weight, swigluoai=swigluoai)
    return feed_forward(mixer.expert, own, x, swigluoai=swigluoai) * weight


def _shared(mixer: Moe, scope: Scope, x: Tensor) -> Tensor:
    if mixer.shared is None:
        return torch.zeros_like(x)
    output = feed_forward(mixer.shared.mlp, scope, x)
    return output * torch.sigmoid(scope.linear("gate", x, bias=False)) if mixer.shared.gated else output
