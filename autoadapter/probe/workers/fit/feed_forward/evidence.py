"""Why a mixture is what it is: every choice flipped to its best alternative, and the block computed again."""

from collections.abc import Iterator
from typing import Any, get_args

from torch import Tensor

from autoadapter.artifacts.decoder import Evidence, Moe, Router
from autoadapter.probe.workers.fit.feed_forward.gating import Gating, relative
from autoadapter.probe.workers.replay.moe import moe as replayed
from autoadapter.probe.workers.replay.scope import Scope, Setting


def moe_evidence(
    moe: Moe, parameters: dict[str, Tensor], x: Tensor, y: Tensor, runners_up: tuple[Gating | None, Gating | None]
) -> tuple[Evidence, ...]:
    """One entry for each choice that has an alternative.

    Args:
        moe: as fitted.
        parameters: by spec name, in double precision.
        x: the block's input [tokens, hidden].
        y: its output.
        runners_up: the second-best gating of the experts and of the shared ones.
    """

    def error_of(candidate: Moe) -> float:
        try:
            return relative(replayed(candidate, Scope(parameters), x, Setting(None)), y)
        except KeyError:
            return float("inf")

    error = error_of(moe)
    best: dict[str, Evidence] = {}
    for path, other in _flips(moe, runners_up):
        value = _at(moe, path)
        entry = Evidence(
            path=path, value=value, max_error=error, runner_up=other, runner_up_error=error_of(_with(moe, path, other))
        )
        known = best.get(path)
        if known is None or (entry.runner_up_error or 0) < (known.runner_up_error or 0):
            best[path] = entry
    return tuple(best.values())


def _flips(moe: Moe, runners_up: tuple[Gating | None, Gating | None]) -> Iterator[tuple[str, Any]]:
    router = moe.router
    for score in get_args(Router.model_fields["score"].annotation):
        if score not in (router.score, "sparsemixer") and not _same(router, score):
            yield "router.score", score
    if router.score not in ("softmax_topk", "sparsemixer"):
        yield "router.renormalize", not router.renormalize
    for name in ("correction", "bias"):
        if getattr(router, name):
            yield f"router.{name}", False
    for name in ("scaling", "n_group", "softcap", "input_norm"):
        if getattr(router, name) is not None:
            yield f"router.{name}", None
    if router.n_group is not None:
        yield "router.group_score", "max" if router.group_score == "top2_sum" else "top2_sum"
    yield from _other_flips(moe, runners_up)


def _other_flips(moe: Moe, runners_up: tuple[Gating | None, Gating | None]) -> Iterator[tuple[str, Any]]:
    if moe.activation_kind == "plain" and runners_up[0] is not None:
        yield "expert.activation", runners_up[0].activation
    if moe.activation_kind != "plain":
        yield "activation_kind", "plain"
    if moe.expert.gate_limit is not None:
        yield "expert.gate_limit", None
    if moe.shared is not None and runners_up[1] is not None:
        yield "shared.mlp.activation", runners_up[1].activation
    if moe.shared is not None and moe.shared.gated:
        yield "shared.gated", False
    if moe.weight_on_input:
        yield "weight_on_input", False
    if moe.output_scale is not None:
        yield "output_scale", None


def _same(router: Router, score: str) -> bool:
    """Whether the score is another name for the router's: softmax over all and over the chosen, renormalised."""
    softmaxes = {"softmax", "softmax_topk"}
    return {score, router.score} <= softmaxes and router.renormalize


def _at(moe: Moe, path: str) -> Any:
    node: Any = moe.model_dump(mode="json")
    for part in path.split("."):
        node = node[part]
    return node


def _with(moe: Moe, path: str, value: Any) -> Moe:
    document: Any = moe.model_dump(mode="json")
    *parents, last = path.split(".")
    node = document
    for part in parents:
        node = node[part]
    node[last] = value
    return Moe.model_validate(document)
