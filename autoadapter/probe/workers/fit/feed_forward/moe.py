"""Fits mixtures of experts: the experts, how much of each a token got, and then the router that says so."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from autoadapter.artifacts.decoder import Moe, Norm, Router, SharedExperts
from autoadapter.probe.workers.fit.binding import bind
from autoadapter.probe.workers.fit.feed_forward import keys
from autoadapter.probe.workers.fit.feed_forward.chains import Chain
from autoadapter.probe.workers.fit.feed_forward.dense import chain_parameters, dense_chains, flat
from autoadapter.probe.workers.fit.feed_forward.evidence import moe_evidence
from autoadapter.probe.workers.fit.feed_forward.experts import Experts, expert_uses, find_experts, stacked
from autoadapter.probe.workers.fit.feed_forward.gating import ROUNDING, relative
from autoadapter.probe.workers.fit.feed_forward.mlp import MlpFit, below, fit_chains, uses
from autoadapter.probe.workers.fit.feed_forward.products import Product
from autoadapter.probe.workers.fit.feed_forward.routing import Routing, fit_routing
from autoadapter.probe.workers.fit.feed_forward.rows import reading, scales
from autoadapter.probe.workers.fit.feed_forward.weights import Shares, solve
from autoadapter.probe.workers.fit.fitted import Fitted, ParameterUse, UnexplainedError
from autoadapter.probe.workers.replay.feed_forward import feed_forward
from autoadapter.probe.workers.replay.moe import moe as replayed
from autoadapter.probe.workers.replay.scope import Scope, Setting
from autoadapter.probe.workers.scene import Block, Scene


@dataclass(frozen=True, eq=False)
class Roles:
    """The products of a mixture."""

    experts: Experts
    router: Product
    shared: Chain | None
    gate: Product | None
    """Of the shared experts."""


@dataclass(frozen=True, eq=False)
class Parts:
    """What is known before the router: experts, and their shares."""

    roles: Roles
    expert: MlpFit
    on_input: bool
    shared: MlpFit | None
    shares: Shares
    parameters: dict[str, Tensor]
    """By their names in the spec, all but the router's."""


def fit_moe(scene: Scene, block: Block, found: list[Product]) -> Fitted[Moe] | None:
    """The block as a mixture of experts; None when it has no experts.

    Raises:
        UnexplainedError: it has, and something about them is not explained.
    """
    experts = find_experts(scene, block, found)
    if experts is None:
        return None
    parts = _parts(scene, block, _roles(scene, block, found, experts))
    x, y = flat(block)
    norm = _input_norm(scene, block, parts.roles.router, x)
    router = parts.roles.router
    logits = router.out.double() if len(router.out) == len(x) else None
    if logits is None:
        raise UnexplainedError(block.module, (), "the router does not read every token")
    best: tuple[float, Moe, Routing] | None = None
    shared_scale, scaled = _scales(parts.shares)
    for routing in fit_routing(scene, block.events, logits, scaled):
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


def _roles(scene: Scene, block: Block, found: list[Product], experts: Experts) -> Roles:
    rest = [product for product in found if id(product) not in experts.products]
    chains = [chain for chain in dense_chains(scene, rest) if chain.down.outputs == block.y.value.shape[-1]]
    if len(chains) > 1:
        raise UnexplainedError(block.module, (), f"{len(chains)} MLPs beside the experts")
    shared = chains[0] if chains else None
    used = {id(product) for chain in chains for product in (*chain.readers, chain.down)}
    rest = [product for product in rest if id(product) not in used]
    gates = [product for product in rest if product.outputs == 1 and experts.count > 1]
    routers = [product for product in rest if product.outputs == experts.count]
    if len(routers) != 1 or len(gates) > 1 or len(rest) != len(routers) + len(gates):
        shapes = [tuple(product.weight.shape) for product in rest]
        raise UnexplainedError(block.module, (), f"products of shapes {shapes} beside {experts.count} experts")
    return Roles(experts, routers[0], shared, gates[0] if gates else None)


def _parts(scene: Scene, block: Block, roles: Roles) -> Parts:
    chains = tuple(roles.experts.chains.values())
    expert = fit_chains(scene, block, chains, (keys.EXPERT, ()))
    parameters = stacked(scene, roles.experts, expert)
    shared, output = None, None
    x, y = flat(block)
    if roles.shared is not None:
        shared = fit_chains(scene, block, (roles.shared,), ((*keys.SHARED, *keys.EXPERT), keys.EXPERT))
        own = chain_parameters(scene, roles.shared, shared)
        parameters |= {f"shared.{name}": tensor for name, tensor in own.items()}
        output = feed_forward(shared.mlp, Scope(own), x)
        if roles.gate is not None:
            parameters["shared.gate.weight"] = roles.gate.weight.double()
            output = output * torch.sigmoid(x @ roles.gate.weight.double().T)
    given = _on_input(x, roles.experts)
    shares = _shares(expert, parameters, roles.experts.count, (x, y, output), given)
    if shares.error > ROUNDING:
        raise UnexplainedError(block.module, (("sum of experts", shares.error),), "experts do not add up to the output")
    return Parts(roles, expert, given is not None, shared, shares, parameters)


def _on_input(x: Tensor, experts: Experts) -> Tensor | None:
    """[tokens, experts]: by what experts' inputs were multiplied; None where they read the input as it is."""
    products = experts.readers[0].members
    if all(reading(x, product.x) == "rows" for product in products.values()):
        return None
    given = torch.zeros(len(x), experts.count, dtype=torch.float64)
    for expert, product in products.items():
        rows = product.x[product.x.any(-1)]
        found = scales(x, rows) if len(rows) else None
        if found is not None:
            given[found[0], expert] = found[1]
    return given


def _shares(
    expert: MlpFit, parameters: dict[str, Tensor], count: int, io: tuple[Tensor, Tensor, Tensor | None], given: Tensor | None
) -> Shares:
    x, y, shared = io
    swigluoai = expert.gating.swigluoai
    own = [{n[8:]: t[e] for n, t in parameters.items() if n.startswith("experts.")} for e in range(count)]
    if given is None:
        outputs = torch.stack([feed_forward(expert.mlp, Scope(one), x, swigluoai=swigluoai) for one in own])
        return solve(y, outputs, shared)
    routed = sum(
        feed_forward(expert.mlp, Scope(one), x * given[:, e, None], swigluoai=swigluoai) * (given[:, e, None] != 0)
        for e, one in enumerate(own)
    )
    parts = [routed] if shared is None else [routed, shared]
    shares = solve(y, torch.stack(parts), None)
    rest = None if shared is None else shares.routed[:, 1]
    return Shares(given, rest, shares.error)


def _scales(shares: Shares) -> tuple[float | None, Tensor]:
    """What the whole output is multiplied by, told by the shared experts; the shares before that."""
    if shares.shared is None:
        return None, shares.routed
    scale = float(shares.shared.mean())
    if abs(scale - 1) < ROUNDING:
        return None, shares.routed
    return scale, shares.routed / scale


def _input_norm(scene: Scene, block: Block, router: Product, x: Tensor) -> Fitted[Norm] | None:
    if len(router.x) != len(x) or reading(x, router.x) == "rows":
        return None
    from autoadapter.probe.workers.fit.norms import fit_norm

    return fit_norm(scene, block.x.value, router.x.reshape(block.x.value.shape), block.events)


def _spec(scene: Scene, parts: Parts, routing: Routing, norm: Fitted[Norm] | None, scale: float | None) -> Moe:
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
        output_scale=None if scale is None else keys.near(config, scale, ()),
    )


def _all(scene: Scene, parts: Parts, routing: Routing, norm: Fitted[Norm] | None) -> dict[str, Tensor]:
    router = parts.roles.router
    result = dict(parts.parameters) | {"router.weight": router.weight.double()}
    if router.bias_value is not None:
        result["router.bias"] = router.bias_value.double().flatten()
    if routing.correction is not None:
        result["router.correction"] = scene.parameter(routing.correction).double().flatten()
    for use in norm.uses if norm else ():
        result[f"router.input_norm.{use.targets[0]}"] = scene.parameter(use.parameter).double()
    return {name: tensor.detach() for name, tensor in result.items()}


def _uses(parts: Parts, routing: Routing, norm: Fitted[Norm] | None) -> tuple[ParameterUse, ...]:
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

