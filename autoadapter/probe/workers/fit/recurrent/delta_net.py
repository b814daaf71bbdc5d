"""Gated delta rule blocks."""

import itertools
from dataclasses import replace
from typing import Literal

import torch

from autoadapter.artifacts.decoder import GatedDeltaNet
from autoadapter.probe.workers.fit.attention.chain import Chain, walk
from autoadapter.probe.workers.fit.attention.check import EXACT, checked, error_of
from autoadapter.probe.workers.fit.attention.flow import waypoints
from autoadapter.probe.workers.fit.attention.packing import uses_of
from autoadapter.probe.workers.fit.attention.sizes import sized
from autoadapter.probe.workers.fit.binding import bind
from autoadapter.probe.workers.fit.fitted import Fitted, ParameterUse, UnexplainedError
from autoadapter.probe.workers.fit.recurrent.parts import Parts, before_padding, find_parts, plain_uses, rms_norms
from autoadapter.probe.workers.scene import Block, Scene
from autoadapter.probe.workers.trace import Seen

K_HEADS = ("linear_num_key_heads", "num_k_heads")
PER_HEAD = ("A_log", "dt_bias")


def fit_delta_net(scene: Scene, block: Block) -> Fitted[GatedDeltaNet]:
    """The gated delta rule.

    Raises:
        UnexplainedError: no candidate reproduces the block.
    """
    parts = find_parts(scene, block)
    channels, _, kernel = scene.parameter(parts.conv).shape
    heads = [name for name in parts.vectors if _is_pair(scene, parts, name)]
    others = [name for name in parts.vectors if name not in heads]
    if len(heads) != 2 or len(others) != 1 or parts.conv_bias:
        raise UnexplainedError(block.module, (), "no gated delta rule: not two numbers a head and one norm")
    v_heads, v_dim = scene.parameter(heads[0]).numel(), scene.parameter(others[0]).numel()
    best: tuple[float, GatedDeltaNet, tuple[ParameterUse, ...]] | None = None
    for k_heads, order, norm in itertools.product(
        _key_heads(scene, block, v_heads, (channels - v_heads * v_dim) // 2),
        itertools.permutations(PER_HEAD),
        rms_norms(scene, block),
    ):
        k_dim = (channels - v_heads * v_dim) // 2 // k_heads
        chains, layout = _projections(scene, block, parts, (k_heads, k_dim, v_heads, v_dim))
        spec = GatedDeltaNet(
            num_k_heads=sized(scene.config, k_heads, K_HEADS, ("key_head",), block),
            num_v_heads=sized(scene.config, v_heads, ("linear_num_value_heads",), ("value_head",), block),
            head_k_dim=sized(scene.config, k_dim, ("linear_key_head_dim",), ("key_head_dim",), block),
            head_v_dim=sized(scene.config, v_dim, ("linear_value_head_dim",), ("value_head_dim",), block),
            conv_kernel=sized(scene.config, kernel, ("linear_conv_kernel_dim",), ("conv",), block),
            norm=norm,
            layout=layout,
        )
        names = dict(zip(heads, order, strict=True)) | {others[0]: "norm.weight"}
        uses = (*uses_of(chains, scene.config, block.module, K_HEADS), *plain_uses(parts, names))
        error = error_of(scene, block, spec, uses)(spec)
        best = (error, spec, uses) if best is None or error < best[0] else best
        if error < EXACT:
            break
    if best is None:
        raise UnexplainedError(block.module, (), "no gated delta rule: no epsilon of a norm")
    return checked(scene, block, best[1], best[2], (("norm.kind", "layer"), ("norm.weight", "one_plus")))


def _is_pair(scene: Scene, parts: Parts, name: str) -> bool:
    """Whether as many parameters as the two numbers of a head have this one's length."""
    size = scene.parameter(name).numel()
    return sum(scene.parameter(other).numel() == size for other in parts.vectors) == 2


def _key_heads(scene: Scene, block: Block, v_heads: int, width: int) -> list[int]:
    """Counts of key heads that divide both and that the config states."""
    counts = [count for count in range(v_heads, 0, -1) if v_heads % count == 0 and width % count == 0]
    stated = [count for count in counts if bind(scene.config, count, K_HEADS).key]
    if not stated:
        raise UnexplainedError(block.module, (), f"no gated delta rule: none of {counts} key heads is stated")
    return stated


def _projections(
    scene: Scene, block: Block, parts: Parts, sizes: tuple[int, int, int, int]
) -> tuple[dict[str, Chain], Literal["per_k_head", "stacked"]]:
    """Rows of the products that make q, k, v, the gate z, and b and a, in the spec's order."""
    k_heads, k_dim, v_heads, v_dim = sizes
    mixed = _chain(scene, block, parts.conv_in)
    q, k, v = mixed.rows[0].split([k_heads * k_dim, k_heads * k_dim, v_heads * v_dim])
    layout: Literal["per_k_head", "stacked"] = "stacked"
    if not torch.equal(mixed.rows[0], torch.arange(mixed.product.outs)):
        per_head = torch.cat([part.reshape(k_heads, -1) for part in (q, k, v)], 1)
        mixed, layout = replace(mixed, rows=per_head.flatten()[None]), "per_k_head"
    gate = _input_of(scene, block, "silu", v_heads * v_dim, parts.conv_in)
    step = scene.trace.maker(_input_of(scene, block, "softplus", v_heads))
    inner = next((seen for seen in step.ins if seen.value.numel() > v_heads), None) if step else None
    if inner is None:
        raise UnexplainedError(block.module, (), "no gated delta rule: no softplus of a projection and a bias")
    chains = {
        "in_proj_qkv": mixed,
        "in_proj_z": _chain(scene, block, gate),
        "in_proj_b": _chain(scene, block, _input_of(scene, block, "sigmoid", v_heads)),
        "in_proj_a": _chain(scene, block, inner),
    }
    return chains, layout


def _chain(scene: Scene, block: Block, seen: Seen) -> Chain:
    """All of a tensor's features back to their product with x."""
    seen = before_padding(scene, seen)
    width = seen.value.numel() // scene.ids.shape[1]
    chain = walk(scene, block, seen, torch.arange(width)[None])
    if chain.steps or chain.product.bias or not chain.reads(block.x):
        raise UnexplainedError(block.module, (), "no gated delta rule: more than a product makes its inputs")
    return chain


def _input_of(scene: Scene, block: Block, name: str, width: int, other: Seen | None = None) -> Seen:
    """What goes into the call of a name over so many features a token, and not out of the convolution."""
    for event in block.events:
        same = event.name == name and event.ins[0].value.numel() == scene.ids.shape[1] * width
        if same and (other is None or not waypoints(scene.trace, other, event.ins[0])):
            return event.ins[0]
    raise UnexplainedError(block.module, (), f"no gated delta rule: no {name} of {width} features")
