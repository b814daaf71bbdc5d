"""Finds the router that gives the shares that were measured."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from autoadapter.artifacts.decoder import Router
from autoadapter.probe.workers.fit.binding import bind
from autoadapter.probe.workers.fit.feed_forward import keys
from autoadapter.probe.workers.fit.feed_forward.gating import relative
from autoadapter.probe.workers.fit.feed_forward.hints import divisors, factors, thresholds
from autoadapter.probe.workers.fit.feed_forward.products import SUMS, parameters_in
from autoadapter.probe.workers.replay.moe import SCORES, routed, sparsely_mixed
from autoadapter.probe.workers.replay.scope import Scope
from autoadapter.probe.workers.scene import Scene
from autoadapter.probe.workers.trace import Event

EXACT = 2e-5
Score = Literal["softmax", "sigmoid", "softmax_topk", "sqrt_softplus", "sparsemixer"]


@dataclass(frozen=True, eq=False)
class Routing:
    """A router, and the buffer that corrects its choice."""

    router: Router
    correction: str | None
    error: float
    """Of the shares."""


@dataclass(frozen=True)
class _Weighing:
    score: Score
    renormalize: bool
    softcap: float | None
    scale: float
    error: float
    jitter: float | None = None


def fit_routing(
    scene: Scene, events: tuple[Event, ...], logits: Tensor, shares: Tensor, bias: str | None
) -> list[Routing]:
    """Routers that choose and weigh as `shares` [tokens, experts] says, best first.

    Args:
        scene: the reference.
        events: of the block.
        logits: [tokens, experts], the bias added, in double precision.
        shares: as measured.
        bias: the parameter that the logits hold already.
    """
    chosen = shares != 0
    top_k = int(chosen.sum(-1).max())
    weighings = sorted(_weighings(events, logits, shares, top_k), key=lambda one: one.error)
    best = [one for one in weighings if one.error <= max(10 * weighings[0].error, EXACT)]
    seen = tuple(factors(events))
    found = []
    for weighing in _preferred(events, best, top_k):
        for choice in _choices(scene, events, logits.shape[-1], bias):
            router = _router(scene.config, weighing, choice, (top_k, seen))
            correction = choice.get("correction")
            value = scene.parameter(str(correction)).detach().double().flatten() if correction else None
            error = relative(_given(router, logits, value), shares)
            found.append(Routing(router, str(correction) if correction else None, error))
    return sorted(found, key=lambda one: one.error > EXACT)


def _given(router: Router, logits: Tensor, correction: Tensor | None) -> Tensor:
    """The shares under a router whose projection is the identity."""
    plain = router.model_copy(update={"bias": False, "input_norm": None})
    eye = torch.eye(logits.shape[-1], dtype=logits.dtype)
    return routed(plain, Scope({"router.weight": eye, "router.correction": correction}), logits)


def _weighings(events: tuple[Event, ...], logits: Tensor, shares: Tensor, top_k: int) -> Iterator[_Weighing]:
    chosen = shares.abs().topk(top_k, dim=-1).indices
    wanted = shares.gather(-1, chosen)
    caps = dict.fromkeys(divisors(events)) if any(event.name == "tanh" for event in events) else {}
    for cap in (None, *caps):
        capped = logits if cap is None else cap * torch.tanh(logits / cap)
        for score, function in SCORES.items():
            weights = function(capped).gather(-1, chosen)
            weights = weights.softmax(-1) if score == "softmax_topk" else weights
            for renormalize in (False, True):
                if renormalize and score == "softmax_topk":
                    continue
                given = weights / weights.sum(-1, keepdim=True) if renormalize else weights
                scale = float((given * wanted).sum() / given.square().sum())
                yield _Weighing(score, renormalize, cap, scale, relative(given * scale, wanted))
    for jitter in dict.fromkeys(threshold / 2 for threshold in thresholds(events)):
        mixed = sparsely_mixed(logits, top_k, jitter)
        scale = float((mixed * shares).sum() / mixed.square().sum())
        yield _Weighing("sparsemixer", False, None, scale, relative(mixed * scale, shares), jitter)


def _preferred(events: tuple[Event, ...], best: list[_Weighing], top_k: int) -> list[_Weighing]:
    """Of equals, what the calls show: a softmax over the chosen alone is `softmax_topk`."""
    narrow = any(event.name == "softmax" and event.outs[0].value.shape[-1] == top_k for event in events)
    names = {event.name for event in events}

    def rank(one: _Weighing) -> tuple[bool, bool]:
        unlike = one.score in ("softmax", "softmax_topk") and (one.score == "softmax_topk") != narrow
        return unlike, not any(name in one.score for name in names)

    return sorted(best, key=rank)


def _choices(scene: Scene, events: tuple[Event, ...], experts: int, bias: str | None) -> Iterator[dict[str, Any]]:
    """How the chosen may have been found, what the calls show before what they do not."""
    added = [event for event in events if event.name in SUMS and event.outs[0].value.shape[-1] == experts]
    corrections = [
        name for name in parameters_in(scene.trace, added) if scene.parameter(name).numel() == experts and name != bias
    ]
    groupings = list(_groupings(events, experts))
    for correction in (*corrections, None):
        for grouping in (*groupings, {}):
            yield {**grouping, **({"correction": correction} if correction else {})}


def _groupings(events: Iterable[Event], experts: int) -> Iterator[dict[str, Any]]:
    counts = [
        out.value.shape[-2]
        for event in events
        for out in event.outs
        if out.value.ndim == 3 and out.value.shape[-2] > 1 and out.value.shape[-2] * out.value.shape[-1] == experts
    ]
    for n_group in dict.fromkeys(counts):
        for topk_group in range(1, n_group):
            for group_score in ("top2_sum", "max"):
                yield {"n_group": n_group, "topk_group": topk_group, "group_score": group_score}


def _router(config: Any, weighing: _Weighing, choice: dict[str, Any], seen: tuple[int, tuple[float, ...]]) -> Router:
    top_k, factors_seen = seen
    scale = weighing.scale
    n_group, topk_group = choice.get("n_group"), choice.get("topk_group")
    return Router(
        score=weighing.score,
        top_k=bind(config, top_k, keys.own(config, keys.TOP_K)),
        renormalize=weighing.renormalize,
        scaling=None if abs(scale - 1) < EXACT else keys.near(config, scale, keys.SCALING, factors_seen),
        correction="correction" in choice,
        n_group=None if n_group is None else bind(config, n_group, keys.own(config, keys.GROUPS)),
        topk_group=None if topk_group is None else bind(config, topk_group, keys.own(config, keys.TOPK_GROUP)),
        group_score=choice.get("group_score", "max"),
        jitter=None if weighing.jitter is None else keys.near(config, weighing.jitter, keys.JITTER),
        softcap=None if weighing.softcap is None else bind(config, weighing.softcap, keys.own(config, keys.SOFTCAP)),
    )
