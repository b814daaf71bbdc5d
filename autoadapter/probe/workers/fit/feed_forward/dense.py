"""Fits a block that is one MLP."""

from torch import Tensor

from autoadapter.artifacts.decoder import Evidence, Mlp
from autoadapter.probe.workers.fit.feed_forward import keys
from autoadapter.probe.workers.fit.feed_forward.chains import Chain, feeders
from autoadapter.probe.workers.fit.feed_forward.gating import ROUNDING, relative
from autoadapter.probe.workers.fit.feed_forward.hints import hints
from autoadapter.probe.workers.fit.feed_forward.mlp import MlpFit, fit_chains, split, targets, uses
from autoadapter.probe.workers.fit.feed_forward.products import Product
from autoadapter.probe.workers.fit.fitted import Fitted, UnexplainedError
from autoadapter.probe.workers.replay.feed_forward import feed_forward
from autoadapter.probe.workers.replay.scope import Scope
from autoadapter.probe.workers.scene import Block, Scene


def fit_mlp(scene: Scene, block: Block, found: list[Product]) -> Fitted[Mlp]:
    """The block as one MLP.

    Args:
        scene: the reference.
        block: what is to be explained.
        found: its products with parameters.

    Raises:
        UnexplainedError: it is none, or not one that the spec can say.
    """
    chains = dense_chains(scene, found)
    if len(chains) != 1 or {id(p) for p in found} != {id(p) for p in (*chains[0].readers, chains[0].down)}:
        raise UnexplainedError(block.module, (), f"{len(found)} products with parameters are not one MLP")
    fit = fit_chains(scene, block, chains, keys.size(scene.config, chains[0].down.inputs, keys.DENSE))
    mlp = scaled_down(scene, block, fit, chains[0])
    x, y = flat(block)
    parameters = chain_parameters(scene, chains[0], fit)
    error = _error(mlp, parameters, x, y)
    if error > ROUNDING:
        raise UnexplainedError(block.module, (("mlp", error),), "the MLP does not give the block's output")
    evidence = mlp_evidence(mlp, fit, parameters, x, y)
    return Fitted(mlp, error, evidence, uses(chains[0], fit))


def dense_chains(scene: Scene, found: list[Product]) -> list[Chain]:
    """MLPs among the products, each told by its writing product."""
    chains = []
    for product in found:
        readers = feeders(scene.trace, product, found)
        if readers and not any(feeders(scene.trace, reader, found) for reader in readers):
            chains.append(Chain(readers, product))
    return chains


def flat(block: Block) -> tuple[Tensor, Tensor]:
    """The block's input and output [tokens, hidden] in double precision."""
    x, y = block.x.value.double(), block.y.value.double()
    return x.reshape(-1, x.shape[-1]), y.reshape(-1, y.shape[-1])


def chain_parameters(scene: Scene, chain: Chain, fit: MlpFit) -> dict[str, Tensor]:
    """The MLP's parameters by their names in the spec, in double precision."""
    result: dict[str, Tensor] = {}
    for product, names in [*zip(chain.readers, targets(fit.gating), strict=True), (chain.down, ("down_proj",))]:
        result |= split(fit, product.weight, tuple(f"{name}.weight" for name in names))
        if product.bias_value is not None:
            result |= split(fit, product.bias_value.flatten(), tuple(f"{name}.bias" for name in names))
    for name, parameter in zip(("alpha_p", "alpha_n"), fit.gating.alphas or (), strict=False):
        result[f"activation.{name}"] = scene.parameter(parameter)
    for use in fit.norm.uses if fit.norm else ():
        result[f"inner_norm.{use.targets[0]}"] = scene.parameter(use.parameter)
    return {name: tensor.detach().double() for name, tensor in result.items()}


def scaled_down(scene: Scene, block: Block, fit: MlpFit, chain: Chain) -> Mlp:
    """The MLP with the number that its output is multiplied by, where there is one."""
    _, y = flat(block)
    out = chain.down.out.double()
    if out.shape != y.shape:
        return fit.mlp
    scale = float((out * y).sum() / out.square().sum())
    if abs(scale - 1) < 1e-5:
        return fit.mlp
    seen = hints(scene, block.events).scales
    return fit.mlp.model_copy(update={"down_scale": keys.near(scene.config, scale, keys.DOWN_SCALE, seen)})


def mlp_evidence(mlp: Mlp, fit: MlpFit, parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> tuple[Evidence, ...]:
    """For every choice its best alternative."""
    error = _error(mlp, parameters, x, y)
    found = []
    if fit.runner_up is not None:
        other = mlp.model_copy(update={"activation": fit.runner_up.activation})
        found.append(_compared("activation", mlp.activation, error, other.activation, _error(other, parameters, x, y)))
    for name in ("gated", "inner_norm", "gate_scale", "gate_limit", "down_scale"):
        value = getattr(mlp, name)
        if value:
            without = False if value is True else None
            other = mlp.model_copy(update={name: without})
            shown = value if value is True else value.model_dump(mode="json")
            found.append(_compared(name, shown, error, without, _error(other, parameters, x, y)))
    return tuple(found)


def _compared(path: str, value: object, error: float, runner_up: object, other_error: float) -> Evidence:
    return Evidence(path=path, value=value, max_error=error, runner_up=runner_up, runner_up_error=other_error)


def _error(mlp: Mlp, parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> float:
    try:
        return relative(feed_forward(mlp, Scope(parameters), x), y)
    except KeyError:
        return float("inf")
