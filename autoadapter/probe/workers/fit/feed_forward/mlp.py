"""Fits MLPs: a block that is one, an expert, the shared experts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from autoadapter.artifacts.decoder import Mlp, Norm, Value
from autoadapter.probe.workers.fit.binding import bind
from autoadapter.probe.workers.fit.feed_forward import keys
from autoadapter.probe.workers.fit.feed_forward.chains import Chain, ancestors, path
from autoadapter.probe.workers.fit.feed_forward.gating import ROUNDING, Gating, GatingFit, Hints, fit_gating
from autoadapter.probe.workers.fit.feed_forward.hints import hints
from autoadapter.probe.workers.fit.fitted import Fitted, ParameterUse, UnexplainedError
from autoadapter.probe.workers.fit.norms import fit_norm
from autoadapter.probe.workers.scene import Block, Scene


@dataclass(frozen=True, eq=False)
class MlpFit:
    """What the chains of one MLP, or of like experts, do."""

    mlp: Mlp
    gating: Gating
    runner_up: Gating | None
    """The best one with another activation."""
    norm: Fitted[Norm] | None = None
    """Of the inner state."""


def fit_chains(scene: Scene, block: Block, chains: Sequence[Chain], size: Value) -> MlpFit:
    """What all the chains compute alike, their rows taken together.

    Args:
        scene: the reference.
        block: whose chains these are.
        chains: one, or those of experts that were hit.
        size: the intermediate size.

    Raises:
        UnexplainedError: no candidate gives the inner states.
    """
    counts = {len(chain.readers) for chain in chains}
    if len(counts) != 1 or counts - {1, 2}:
        raise UnexplainedError(block.module, (), f"{sorted(counts)} products feed the one that writes")
    made = tuple(torch.cat(parts) for parts in zip(*(chain.made for chain in chains), strict=True))
    state = torch.cat([chain.down.x for chain in chains])
    seen = hints(scene, [event for chain in chains for event in path(scene.trace, chain)])
    fit, norm = fit_gating(made, state, seen) if len(made[0]) == len(state) else None, None
    if (fit is None or fit.error > ROUNDING) and len(chains) == 1:
        fit, norm = _with_norm(scene, block, chains[0], seen) or (fit, None)
    if fit is None or fit.error > ROUNDING:
        raise UnexplainedError(block.module, tried(fit), "no activation gives the inner state")
    mlp = _spec(scene, chains, fit.best, norm, size)
    return MlpFit(mlp, fit.best, fit.runner_up, norm)


def tried(fit: GatingFit | None) -> tuple[tuple[str, float], ...]:
    """The best candidates for a message."""
    if fit is None:
        return ()
    shown = [(f"{fit.best.layout} {fit.best.activation}", fit.error)]
    if fit.runner_up is not None and fit.runner_up_error is not None:
        shown.append((f"{fit.runner_up.layout} {fit.runner_up.activation}", fit.runner_up_error))
    return tuple(shown)


def _with_norm(scene: Scene, block: Block, chain: Chain, seen: Hints) -> tuple[GatingFit, Fitted[Norm]] | None:
    """The gating that gives a tensor on the way, and the norm that leads from there to the writing product."""
    state = chain.down.x
    floor = min(reader.made.event or 0 for reader in chain.readers)
    for node in ancestors(scene.trace, chain.down.source, {r.made for r in chain.readers}, floor):
        if node.event is None or node.event < floor or node.value.numel() != state.numel():
            continue
        value = node.value.reshape(state.shape)
        fit = fit_gating(chain.made, value, seen)
        if fit is None or fit.error > ROUNDING:
            continue
        try:
            return fit, fit_norm(scene, value, state, block.events)
        except UnexplainedError:
            continue
    return None


def _spec(
    scene: Scene,
    chains: Sequence[Chain],
    gating: Gating,
    norm: Fitted[Norm] | None,
    size: Value,
) -> Mlp:
    readers, down = chains[0].readers, chains[0].down
    biased = {reader.bias is not None for reader in readers}
    if len(biased) != 1:
        raise UnexplainedError("", (), "one of gate and up has a bias, the other none")
    config = scene.config
    return Mlp(
        intermediate_size=size,
        gated=gating.gated,
        activation=_named(config, gating),
        up_bias=biased.pop(),
        down_bias=down.bias is not None,
        inner_norm=norm.value if norm else None,
        gate_scale=None if gating.scale is None else bind(config, gating.scale, keys.own(config, keys.GATE_SCALE)),
        gate_limit=None if gating.limit is None else bind(config, gating.limit, keys.own(config, keys.LIMIT)),
    )


def _named(config: object, gating: Gating) -> str:
    """Of two names for one function, the config's own."""
    if gating.activation in ("gelu_new", "gelu_pytorch_tanh"):
        stated = {getattr(config, key, None) for key in ("hidden_act", "activation_function", "hidden_activation")}
        return "gelu_new" if "gelu_new" in stated else "gelu_pytorch_tanh"
    return gating.activation


def targets(gating: Gating) -> tuple[tuple[str, ...], ...]:
    """For each reader, what its rows are."""
    return {
        "up": (("up_proj",),),
        "gate,up": (("gate_proj",), ("up_proj",)),
        "up,gate": (("up_proj",), ("gate_proj",)),
        "gate|up": (("gate_proj", "up_proj"),),
        "up|gate": (("up_proj", "gate_proj"),),
        "interleaved": (("gate_proj", "up_proj"),),
        "interleaved_up": (("up_proj", "gate_proj"),),
    }[gating.layout]


def groups(fit: MlpFit) -> Value:
    """How often a reader's rows change between its targets."""
    return fit.mlp.intermediate_size if fit.gating.layout.startswith("interleaved") else Value(number=1)


def uses(chain: Chain, fit: MlpFit, prefix: str = "") -> tuple[ParameterUse, ...]:
    """Which parameters hold the MLP's, as `prefix`gate_proj and so on."""
    found = []
    for product, names in [*zip(chain.readers, targets(fit.gating), strict=True), (chain.down, ("down_proj",))]:
        parts = groups(fit) if len(names) == 2 else Value(number=1)
        whole = tuple(f"{prefix}{name}.weight" for name in names)
        found.append(ParameterUse(product.parameter, whole, parts, product.transposed))
        if product.bias is not None:
            found.append(ParameterUse(product.bias, tuple(f"{prefix}{name}.bias" for name in names), parts))
    if fit.gating.alphas is not None:
        for name, parameter in zip(("alpha_p", "alpha_n"), fit.gating.alphas, strict=True):
            found.append(ParameterUse(parameter, (f"{prefix}activation.{name}",)))
    if fit.norm is not None:
        found += [below(use, f"{prefix}inner_norm.") for use in fit.norm.uses]
    return tuple(found)


def below(use: ParameterUse, prefix: str) -> ParameterUse:
    """The use as seen from a part above."""
    return replace(use, targets=tuple(prefix + target for target in use.targets))


def split(fit: MlpFit, tensor: Tensor, names: tuple[str, ...]) -> dict[str, Tensor]:
    """Rows of a reader [..., rows, inputs], or its bias [..., rows] under `names` ending in bias, by target."""
    if len(names) == 1:
        return {names[0]: tensor}
    dim = -1 if names[0].endswith("bias") else -2
    if fit.gating.layout.startswith("interleaved"):
        parts = tensor.unflatten(dim, (-1, 2)).unbind(dim)
    else:
        parts = tensor.chunk(2, dim)
    return dict(zip(names, parts, strict=True))
