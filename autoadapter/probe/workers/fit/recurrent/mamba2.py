"""Mamba-2 blocks."""

import itertools
from collections.abc import Iterator
from typing import Any

import torch

from autoadapter.artifacts.decoder import Mamba2, Norm, Value
from autoadapter.probe.workers.fit.attention.check import EXACT, checked, error_of
from autoadapter.probe.workers.fit.attention.flow import columns
from autoadapter.probe.workers.fit.attention.products import Product
from autoadapter.probe.workers.fit.attention.sizes import sized
from autoadapter.probe.workers.fit.binding import bind
from autoadapter.probe.workers.fit.fitted import Fitted, ParameterUse, UnexplainedError
from autoadapter.probe.workers.fit.recurrent.parts import Parts, find_parts, plain_uses, rms_norms, scale_between
from autoadapter.probe.workers.scene import Block, Scene

KERNEL = ("mamba_d_conv", "mamba_conv_kernel", "conv_kernel", "d_conv", "conv_kernel_size")
HEADS = ("mamba_n_heads", "mamba_num_heads", "n_mamba_heads", "ssm_num_heads", "num_heads")
HEAD_DIM = ("mamba_d_head", "mamba_head_dim", "mamba_headdim", "ssm_head_dim", "head_dim")
STATE = ("mamba_d_state", "ssm_state_size", "state_size", "d_state")
GROUPS = ("mamba_n_groups", "mamba_ngroups", "n_groups", "ssm_n_groups")
NO_LIMIT = torch.finfo(torch.float32).max
"""What JSON can say of an infinite limit."""
PER_HEAD = ("A_log", "D", "dt_bias")


def fit_mamba2(scene: Scene, block: Block) -> Fitted[Mamba2]:
    """The block's sizes from its parameters' shapes, the rest by trying.

    Raises:
        UnexplainedError: no candidate reproduces the block.
    """
    parts = find_parts(scene, block)
    plain = _sizes(scene, block, parts)
    best: tuple[float, Mamba2, tuple[ParameterUse, ...]] | None = None
    for spec, names in _candidates(scene, block, parts, plain):
        uses = _uses(parts, names)
        error = error_of(scene, block, spec, uses)(spec)
        if best is None or error < best[0]:
            best = error, spec, uses
        if error < EXACT:
            break
    if best is None:
        raise UnexplainedError(block.module, (), "no Mamba-2 block")
    return checked(scene, block, best[1], best[2], _rivals(best[1]))


def _sizes(scene: Scene, block: Block, parts: Parts) -> Mamba2:
    """The block without its norm."""
    config = scene.config
    channels, _, kernel = scene.parameter(parts.conv).shape
    lengths = sorted(scene.parameter(name).numel() for name in parts.vectors)
    if len(parts.first) != 1 or len(lengths) not in (3, 4) or len(set(lengths[:3])) != 1:
        raise UnexplainedError(block.module, (), "no Mamba-2 block: not three numbers a head")
    product, heads = parts.first[0], lengths[0]
    inner = product.outs - channels - heads
    if inner <= 0 or inner % heads or (channels - inner) % 2 or (product.bias is None) != (parts.last.bias is None):
        raise UnexplainedError(block.module, (), "no Mamba-2 block: the projection is no [z, x, B, C, dt]")
    shared = (channels - inner) // 2
    state = next((s for key in STATE if (s := getattr(config, key, None)) and shared % s == 0), None)
    if state is None:
        raise UnexplainedError(block.module, (), f"no config key states a state size that divides {shared}")
    groups = shared // state
    sizes = [inner, inner, shared, shared, heads]
    return Mamba2(
        num_heads=sized(config, heads, HEADS, ("mamba", "ssm"), block),
        head_dim=sized(config, inner // heads, HEAD_DIM, ("mamba", "head"), block),
        n_groups=Value(number=1)
        if groups == 1 and bind(config, 1, GROUPS).key is None
        else sized(config, groups, GROUPS, ("group",), block),
        state_size=sized(config, state, STATE, ("state",), block),
        conv_kernel=sized(config, kernel, KERNEL, ("conv",), block),
        conv_bias=parts.conv_bias is not None,
        proj_bias=product.bias is not None,
        dt_limit=_limit(block),
        in_scale=_in_scale(scene, block, product),
        segment_scales=_segment_scales(scene, block, product, sizes),
    )


def _limit(block: Block) -> tuple[float, float] | None:
    """The clamp of the time steps, where it can bite."""
    for event in block.events:
        if event.name in ("clamp", "clip"):
            given = dict(zip(("min", "max"), event.args[1:], strict=False)) | event.kwargs
            low, high = given.get("min"), given.get("max")
            low, high = float(low or 0.0), float("inf") if high is None else float(high)
            return None if low <= 0.0 and high >= NO_LIMIT else (low, min(high, NO_LIMIT))
    return None


def _in_scale(scene: Scene, block: Block, product: Product) -> Value | None:
    tokens = scene.ids.shape[1]
    source = columns(product.source.value, tokens)
    factor = scale_between(block.x.value.float().reshape(tokens, -1), source)
    return None if factor in (None, 1.0) else bind(scene.config, factor, ("ssm_in_multiplier",))


def _segment_scales(scene: Scene, block: Block, product: Product, sizes: list[int]) -> tuple[Value, ...]:
    """Numbers by which segments of the projection are multiplied."""
    for event in block.events:
        factor = next((seen for seen in event.ins if seen.value.numel() == product.outs), None)
        if event.name == "mul" and product.out in event.ins and factor is not None:
            parts = factor.value.float().flatten().split(sizes)
            if all(bool((part == part[0]).all()) for part in parts):
                return tuple(_segment(scene.config, float(part[0]), at) for at, part in enumerate(parts))
            raise UnexplainedError(block.module, (), "the projection is multiplied by a vector")
    return ()


def _segment(config: Any, number: float, at: int) -> Value:
    return bind(config, number, (f"ssm_multipliers.{at}",))


def _candidates(scene: Scene, block: Block, parts: Parts, plain: Mamba2) -> Iterator[tuple[Mamba2, dict[str, str]]]:
    """With every order of the three numbers a head, and every gated norm."""
    width = int(plain.num_heads.number) * int(plain.head_dim.number)
    heads = [name for name in parts.vectors if scene.parameter(name).numel() == plain.num_heads.number]
    wide = [name for name in parts.vectors if scene.parameter(name).numel() == width]
    norms: list[Norm | None] = [None]
    if wide:
        groups = [None, plain.n_groups] if plain.n_groups.number > 1 else [None]
        norms = [n.model_copy(update={"groups": g}) for n in rms_norms(scene, block) for g in groups]
    for order, norm, before in itertools.product(itertools.permutations(PER_HEAD), norms, (False, True)):
        names = dict(zip(heads, order, strict=True)) | dict.fromkeys(wide, "norm.weight")
        yield plain.model_copy(update={"norm": norm, "norm_before_gate": before and norm is not None}), names


def _uses(parts: Parts, names: dict[str, str]) -> tuple[ParameterUse, ...]:
    product = parts.first[0]
    uses = [ParameterUse(product.weight, ("in_proj.weight",), transposed=product.transposed)]
    uses += [ParameterUse(product.bias, ("in_proj.bias",))] if product.bias else []
    return (*uses, *plain_uses(parts, names))


def _rivals(spec: Mamba2) -> Iterator[tuple[str, Any]]:
    if spec.norm:
        yield "norm_before_gate", not spec.norm_before_gate
        yield "norm.kind", "layer"
        other = None if spec.norm.groups else spec.n_groups.model_dump(mode="json")
        if spec.n_groups.number > 1:
            yield "norm.groups", other
    if spec.segment_scales:
        yield "segment_scales", []
    if spec.in_scale:
        yield "in_scale", None
    if spec.dt_limit:
        yield "dt_limit", None
