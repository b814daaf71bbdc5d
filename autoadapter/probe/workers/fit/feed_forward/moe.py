"""Fits mixtures of experts: the experts, how much of each a token got, and then the router that says so."""

from typing import Any

from torch import Tensor

from autoadapter.artifacts.decoder import Moe, Norm, Router, SharedExperts, Value
from autoadapter.probe.workers.fit.binding import bind
from autoadapter.probe.workers.fit.feed_forward import keys
from autoadapter.probe.workers.fit.feed_forward.dense import flat
from autoadapter.probe.workers.fit.feed_forward.evidence import moe_evidence
from autoadapter.probe.workers.fit.feed_forward.experts import expert_uses, find_experts
from autoadapter.probe.workers.fit.feed_forward.gating import ROUNDING, relative
from autoadapter.probe.workers.fit.feed_forward.hints import factors
from autoadapter.probe.workers.fit.feed_forward.mixture import Mixture, measure
from autoadapter.probe.workers.fit.feed_forward.mlp import below, uses
from autoadapter.probe.workers.fit.feed_forward.products import Product
from autoadapter.probe.workers.fit.feed_forward.roles import find_roles
from autoadapter.probe.workers.fit.feed_forward.routing import Routing, fit_routing
from autoadapter.probe.workers.fit.feed_forward.rows import reading
from autoadapter.probe.workers.fit.feed_forward.weights import Shares
from autoadapter.probe.workers.fit.fitted import Fitted, ParameterUse, UnexplainedError
from autoadapter.probe.workers.fit.norms import fit_norm
from autoadapter.probe.workers.replay.moe import moe as replayed
from autoadapter.probe.workers.replay.scope import Scope, Setting
from autoadapter.probe.workers.scene import Block, Scene


def fit_moe(scene: Scene, block: Block, found: list[Product]) -> Fitted[Moe] | None:
    """The block as a mixture of experts; None when it has no experts.

    Raises:
        UnexplainedError: it has, and something about them is not explained.
    """
    experts = find_experts(scene, block, found)
    if experts is None:
        return None
    parts = measure(scene, block, find_roles(scene, block, found, experts))
    x, y = flat(block)
    norm = _input_norm(scene, block, parts.roles.router, x)
    router = parts.roles.router
    logits = router.out.double() if len(router.out) == len(x) else None
    if logits is None:
        raise UnexplainedError(block.module, (), "the router does not read every token")
    best: tuple[float, Moe, Routing] | None = None
    shared_scale, scaled = _scales(scene, block, parts.shares)
    for routing in fit_routing(scene, block.events, logits, scaled, router.bias):
        moe = _spec(scene, parts, routing, norm, shared_scale)
        error = relative(replayed(moe, Scope(_all(scene, parts, routing, norm)), x, Setting(scene.config)), y)
        if best is None or error < best[0]:
            best = (error, moe, routing)
        if error <= ROUNDING:
            break
    if best is None or best[0] > ROUNDING:
        tried = () if best is None else ((_said(best[1].router), best[0]),)
        raise UnexplainedError(block.module, tried, "no router gives the weights that the experts got")
    error, moe, routing = best
    parameters = _all(scene, parts, routing, norm)
    evidence = moe_evidence(moe, parameters, x, y, (parts.expert.runner_up, parts.shared and parts.shared.runner_up))
    return Fitted(moe, error, evidence, _uses(parts, routing, norm))


def _scales(scene: Scene, block: Block, shares: Shares) -> tuple[Value | None, Tensor]:
    """What the whole output is multiplied by, told by the shared experts; the shares before that."""
    if shares.shared is None:
        return None, shares.routed
    scale = float(shares.shared.mean())
    if abs(scale - 1) < ROUNDING:
        return None, shares.routed
    return keys.near(scene.config, scale, (), tuple(factors(block.events))), shares.routed / scale


def _input_norm(scene: Scene, block: Block, router: Product, x: Tensor) -> Fitted[Norm] | None:
    if len(router.x) != len(x) or reading(x, router.x) == "rows":
        return None
    return fit_norm(scene, block.x.value, router.x.reshape(block.x.value.shape), block.events)


def _spec(scene: Scene, parts: Mixture, routing: Routing, norm: Fitted[Norm] | None, scale: Value | None) -> Moe:
    config, roles = scene.config, parts.roles
    update: dict[str, Any] = {"bias": roles.router.bias is not None, "input_norm": norm.value if norm else None}
    shared = None
    if parts.shared is not None:
        shared = SharedExperts(mlp=parts.shared.mlp, gated=roles.gate is not None)
    return Moe(
        num_experts=bind(config, roles.experts.count, keys.own(config, keys.EXPERTS)),
        router=routing.router.model_copy(update=update),
        expert=parts.expert.mlp,
        activation_kind="swigluoai" if parts.expert.gating.swigluoai else "plain",
        weight_on_input=parts.on_input,
        shared=shared,
        output_scale=scale,
    )


def _all(scene: Scene, parts: Mixture, routing: Routing, norm: Fitted[Norm] | None) -> dict[str, Tensor]:
    router = parts.roles.router
    result = dict(parts.parameters) | {"router.weight": router.weight.double()}
    if router.bias_value is not None:
        result["router.bias"] = router.bias_value.double().flatten()
    if routing.correction is not None:
        result["router.correction"] = scene.parameter(routing.correction).double().flatten()
    for use in norm.uses if norm else ():
        result[f"router.input_norm.{use.targets[0]}"] = scene.parameter(use.parameter).double()
    return {name: tensor.detach() for name, tensor in result.items()}


def _uses(parts: Mixture, routing: Routing, norm: Fitted[Norm] | None) -> tuple[ParameterUse, ...]:
    roles = parts.roles
    found = [ParameterUse(roles.router.parameter, ("router.weight",), transposed=roles.router.transposed)]
    if roles.router.bias is not None:
        found.append(ParameterUse(roles.router.bias, ("router.bias",)))
    if routing.correction is not None:
        found.append(ParameterUse(routing.correction, ("router.correction",)))
    found += [below(use, "router.input_norm.") for use in (norm.uses if norm else ())]
    found += expert_uses(roles.experts, parts.expert)
    if roles.shared is not None and parts.shared is not None:
        found += uses(roles.shared, parts.shared, "shared.")
    if roles.gate is not None:
        found.append(ParameterUse(roles.gate.parameter, ("shared.gate.weight",), transposed=roles.gate.transposed))
    return tuple(found)


def _said(router: Router) -> str:
    return f"{router.score}, renormalize {router.renormalize}, correction {router.correction}"
