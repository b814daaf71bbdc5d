"""Fits Mamba-2 blocks."""

from collections.abc import Iterator
from itertools import permutations, product

from torch import Tensor

from autoadapter.artifacts.decoder import Mamba2, Norm, Value
from autoadapter.probe.workers.fit.binding import bind
from autoadapter.probe.workers.fit.fitted import Fitted, ParameterUse, UnexplainedError
from autoadapter.probe.workers.fit.norms import EPS_KEYS
from autoadapter.probe.workers.fit.recurrent.choosing import Candidate, choose
from autoadapter.probe.workers.fit.recurrent.roles import (
    clamped,
    convolution,
    divisors,
    factor_between,
    parameter,
    projections,
    row_factors,
    vectors,
)
from autoadapter.probe.workers.scene import Block, Scene

HEADS = ("mamba_n_heads", "mamba_num_heads", "n_mamba_heads", "ssm_num_heads", "num_heads")
HEAD_DIM = ("mamba_d_head", "mamba_head_dim", "mamba_headdim", "ssm_head_dim", "head_dim")
GROUPS = ("mamba_n_groups", "mamba_ngroups", "n_groups", "ssm_n_groups")
STATE = ("mamba_d_state", "ssm_state_size", "state_size", "d_state")
KERNEL = ("mamba_d_conv", "mamba_conv_kernel", "conv_kernel", "d_conv", "mamba_d_conv_kernel")
NORM_EPS = ("layer_norm_epsilon", "mamba_norm_eps", *EPS_KEYS)
IN_SCALE = ("ssm_in_multiplier",)
SEGMENTS = "ssm_multipliers"
OF_HEADS = ("A_log", "D", "dt_bias")


class _Sizes:
    """What the shapes of a block's parameters leave open: only how many groups share B and C."""

    def __init__(self, scene: Scene, block: Block) -> None:
        self.conv = convolution(block)
        products = projections(block)
        if len(products) != 2:
            raise UnexplainedError(block.module, (), f"{len(products)} projections, Mamba-2 has two")
        self.into, self.out = products
        rows, self.inner = self._matrix(scene, self.into).shape[0], self._matrix(scene, self.out).shape[1]
        weight = scene.parameter(str(parameter(self.conv, 1, "weight")))
        self.channels, self.kernel = weight.shape[0], weight.shape[-1]
        self.heads = rows - self.inner - self.channels
        self.states = (self.channels - self.inner) // 2
        if min(self.heads, self.states) < 1 or self.inner % self.heads:
            raise UnexplainedError(block.module, (), "shapes of the parameters are not those of Mamba-2")
        self.vectors = vectors(scene, block)

    def of_length(self, length: int) -> list[str]:
        """Vectors of a length that are no biases of the products."""
        taken = {parameter(event, 2, "bias") for event in (self.into, self.out, self.conv)}
        return [name for name, vector in self.vectors.items() if len(vector) == length and name not in taken]

    @staticmethod
    def _matrix(scene: Scene, event: object) -> Tensor:
        return scene.parameter(str(parameter(event, 1, "weight")))  # type: ignore[arg-type]


def fit_mamba2(scene: Scene, block: Block) -> Fitted[Mamba2]:
    """The Mamba-2 block that reproduces `block`.

    Raises:
        UnexplainedError: no candidate does.
    """
    sizes = _Sizes(scene, block)
    return choose(scene, block, _candidates(scene, block, sizes))


def _candidates(scene: Scene, block: Block, sizes: _Sizes) -> Iterator[Candidate]:
    base = _base(scene, block, sizes)
    groups = [count for count in divisors(sizes.heads) if sizes.states % count == 0]
    triples = list(permutations(sizes.of_length(sizes.heads), 3))
    for count, names, (norm, before, weight) in product(groups, triples, _norms(scene, sizes, groups)):
        held = dict(zip(OF_HEADS, names, strict=True)) | ({"norm.weight": weight} if weight else {})
        mixer = base.model_copy(
            update={
                "n_groups": bind(scene.config, count, GROUPS),
                "state_size": bind(scene.config, sizes.states // count, STATE),
                "norm": norm,
                "norm_before_gate": before,
            }
        )
        yield Candidate(mixer, (*_uses(sizes), *(ParameterUse(name, (target,)) for target, name in held.items())))


def _base(scene: Scene, block: Block, sizes: _Sizes) -> Mamba2:
    config = scene.config
    scale = factor_between(block.x, sizes.into.ins[0])
    return Mamba2(
        num_heads=bind(config, sizes.heads, HEADS),
        head_dim=bind(config, sizes.inner // sizes.heads, HEAD_DIM),
        n_groups=Value(number=1),
        state_size=Value(number=1),
        conv_kernel=bind(config, sizes.kernel, KERNEL),
        conv_bias=parameter(sizes.conv, 2, "bias") is not None,
        proj_bias=parameter(sizes.into, 2, "bias") is not None,
        dt_limit=clamped(block),
        in_scale=None if scale is None or abs(scale - 1) < 1e-6 else bind(config, scale, IN_SCALE),
        segment_scales=_segments(scene, block, sizes),
    )


def _segments(scene: Scene, block: Block, sizes: _Sizes) -> tuple[Value, ...]:
    factors = row_factors(scene, block, sizes.into)
    if factors is None:
        return ()
    parts = factors.split([sizes.inner, sizes.inner, sizes.states, sizes.states, sizes.heads])
    if any(bool((part != part[0]).any()) for part in parts):
        raise UnexplainedError(block.module, (), "rows of one segment of the projection are multiplied differently")
    keys = [(f"{SEGMENTS}.{index}",) for index in range(len(parts))]
    return tuple(bind(scene.config, float(part[0]), key) for part, key in zip(parts, keys, strict=True))


def _norms(scene: Scene, sizes: _Sizes, groups: list[int]) -> Iterator[tuple[Norm | None, bool, str | None]]:
    for weight in sizes.of_length(sizes.inner):
        for key, count, before in product(NORM_EPS, groups, (False, True)):
            stated = getattr(scene.config, key, None)
            if isinstance(stated, float):
                parts = None if count == 1 else bind(scene.config, count, GROUPS)
                yield Norm(kind="rms", eps=Value(number=stated, key=key), groups=parts), before, weight
    yield None, False, None


def _uses(sizes: _Sizes) -> list[ParameterUse]:
    uses = []
    for target, event in (("in_proj", sizes.into), ("conv1d", sizes.conv), ("out_proj", sizes.out)):
        for at, end in ((1, "weight"), (2, "bias")):
            name = parameter(event, at, end)
            if name is not None:
                uses.append(ParameterUse(name, (f"{target}.{end}",)))
    return uses
