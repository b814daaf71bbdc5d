"""A mixture before its router is known: experts, and how much of each a token got."""

from dataclasses import dataclass

import torch
from torch import Tensor

from autoadapter.probe.workers.fit.feed_forward import keys
from autoadapter.probe.workers.fit.feed_forward.dense import chain_parameters, flat
from autoadapter.probe.workers.fit.feed_forward.experts import Experts, stacked
from autoadapter.probe.workers.fit.feed_forward.gating import ROUNDING
from autoadapter.probe.workers.fit.feed_forward.mlp import MlpFit, fit_chains
from autoadapter.probe.workers.fit.feed_forward.roles import Roles
from autoadapter.probe.workers.fit.feed_forward.rows import held, reading, scales
from autoadapter.probe.workers.fit.feed_forward.weights import Shares, solve
from autoadapter.probe.workers.fit.fitted import UnexplainedError
from autoadapter.probe.workers.replay.feed_forward import feed_forward
from autoadapter.probe.workers.replay.scope import Scope
from autoadapter.probe.workers.scene import Block, Scene


@dataclass(frozen=True, eq=False)
class Mixture:
    """What is known before the router: experts, and their shares."""

    roles: Roles
    expert: MlpFit
    on_input: bool
    shared: MlpFit | None
    shares: Shares
    parameters: dict[str, Tensor]
    """By their names in the spec, all but the router's."""


def measure(scene: Scene, block: Block, roles: Roles) -> Mixture:
    """Fits the experts, and solves for what each token got of them.

    Raises:
        UnexplainedError: the experts are not explained, or do not add up to the block's output.
    """
    chains = tuple(roles.experts.chains.values())
    expert = fit_chains(scene, block, chains, keys.size(scene.config, chains[0].down.inputs, keys.EXPERT))
    parameters = stacked(scene, roles.experts, expert)
    shared, output = None, None
    x, y = flat(block)
    if roles.shared is not None:
        width = keys.shared_size(scene.config, roles.shared.down.inputs)
        shared = fit_chains(scene, block, (roles.shared,), width)
        own = chain_parameters(scene, roles.shared, shared)
        parameters |= {f"shared.{name}": tensor for name, tensor in own.items()}
        output = feed_forward(shared.mlp, Scope(own), x)
        if roles.gate is not None:
            parameters["shared.gate.weight"] = roles.gate.weight.double()
            output = output * torch.sigmoid(x @ roles.gate.weight.double().T)
    asked = _asked(x, roles.experts)
    on_input = bool(((asked != 0) & (asked != 1)).any())
    outputs = _outputs(expert, parameters, x, asked)
    shares = _added(asked, y, outputs, output) if on_input else solve(y, outputs, output)
    if shares.error > ROUNDING:
        raise UnexplainedError(block.module, (("sum of experts", shares.error),), "experts do not add up to the output")
    return Mixture(roles, expert, on_input, shared, shares, parameters)


def _asked(x: Tensor, experts: Experts) -> Tensor:
    """[tokens, experts]: by what the input was multiplied that an expert read, 0 where it read nothing of a token."""
    asked = torch.zeros(len(x), experts.count, dtype=torch.float64)
    for expert, product in experts.readers[0].members.items():
        rows = product.x[product.x.any(-1)]
        if not len(rows):
            continue
        if reading(x, rows) == "rows":
            asked[held(x, rows), expert] = 1
        elif (found := scales(x, rows)) is not None:
            asked[found[0], expert] = found[1]
    return asked


def _outputs(expert: MlpFit, parameters: dict[str, Tensor], x: Tensor, asked: Tensor) -> Tensor:
    """[experts, tokens, hidden]: what each expert made of what it was asked."""
    made = []
    for number, share in enumerate(asked.T[..., None]):
        own = {name[8:]: tensor[number] for name, tensor in parameters.items() if name.startswith("experts.")}
        made.append(feed_forward(expert.mlp, Scope(own), x * share, swigluoai=expert.gating.swigluoai) * (share != 0))
    return torch.stack(made)


def _added(asked: Tensor, y: Tensor, outputs: Tensor, shared: Tensor | None) -> Shares:
    """The shares where they were multiplied in before the experts: their outputs are but added."""
    solved = solve(y, outputs.sum(0)[None], shared)
    return Shares(asked, solved.shared, solved.error)
