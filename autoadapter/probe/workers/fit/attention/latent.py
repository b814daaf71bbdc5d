"""Multi-head latent attention: keys and values out of one normed vector, and a rotated part that heads share."""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch

from autoadapter.artifacts.decoder import LatentAttention, Rope, Value
from autoadapter.probe.workers.fit.attention.assemble import shared_uses
from autoadapter.probe.workers.fit.attention.chain import Chain, Rotated, walk
from autoadapter.probe.workers.fit.attention.core import Core
from autoadapter.probe.workers.fit.attention.flow import columns, matches, relative
from autoadapter.probe.workers.fit.attention.head_norms import HeadNorm
from autoadapter.probe.workers.fit.attention.output import Output
from autoadapter.probe.workers.fit.attention.packing import uses_of
from autoadapter.probe.workers.fit.attention.products import Product
from autoadapter.probe.workers.fit.attention.rope import EXACT, fit_rope
from autoadapter.probe.workers.fit.attention.scores import Scores, fit_window
from autoadapter.probe.workers.fit.attention.sizes import HEADS, fit_scale, sized, snapped
from autoadapter.probe.workers.fit.binding import bind
from autoadapter.probe.workers.fit.fitted import ParameterUse, UnexplainedError
from autoadapter.probe.workers.scene import Block, Scene


@dataclass(frozen=True, eq=False)
class Latent:
    """The chains of the block. Without `q_low`, queries come from x at once."""

    q_low: Chain | None
    q: Chain
    kv_low: Chain
    kv: Chain
    """Values; its product makes the plain part of the keys, too."""
    nope: int
    rope: Rope | None


def fit_latent(
    scene: Scene, block: Block, core: Core, scores: Scores, output: Output
) -> tuple[LatentAttention, tuple[ParameterUse, ...]]:
    """The spec and where its parameters are.

    Raises:
        UnexplainedError: the block is no latent attention either.
    """
    parts = _parts(scene, block, core)
    config, module, heads = scene.config, block.module, core.q.index.shape[0]
    rank, shared = parts.kv_low.rows.shape[1], core.k.index.shape[1] - parts.nope
    q_norm, kv_norm = (chain.only(HeadNorm) if chain else None for chain in (parts.q_low, parts.kv_low))
    if scores.softcap or scores.alibi is not None or output.sub_norm or parts.kv.steps:
        raise UnexplainedError(block.module, (), "latent attention with a soft cap, linear biases or a norm inside")
    q_scale = parts.q.scale * (parts.q_low.scale if parts.q_low else 1.0)
    scale = scores.slope * (1.0 if parts.q_low else q_scale)
    sinks = scores.sinks if scores.sinks is not None else output.sinks
    spec = LatentAttention(
        num_heads=sized(config, heads, HEADS, ("head",), block),
        q_lora_rank=_rank(config, parts.q_low, block),
        kv_lora_rank=sized(config, rank, ("kv_lora_rank",), ("rank", "dim"), block),
        qk_nope_head_dim=sized(config, parts.nope, ("qk_nope_head_dim",), ("rank", "dim"), block),
        qk_rope_head_dim=sized(config, shared, ("qk_rope_head_dim",), ("rank", "dim"), block),
        v_head_dim=sized(config, core.v.index.shape[1], ("v_head_dim",), ("rank", "dim"), block),
        q_norm=q_norm.fitted.value if q_norm else None,
        kv_norm=kv_norm.fitted.value if kv_norm else None,
        q_a_bias=bool(parts.q_low and parts.q_low.product.bias),
        kv_a_bias=parts.kv_low.product.bias is not None,
        o_bias=output.product.bias is not None,
        q_scale=_scale(config, q_scale, "q_lora_rank") if parts.q_low else None,
        kv_scale=_scale(config, parts.kv_low.scale, "kv_lora_rank"),
        rope=parts.rope,
        scale=_bound_scale(config, scale, core.q.index.shape[1], module),
        window=fit_window(config, scores.window, block),
        sinks=sinks is not None,
        gate=output.gate[0] if output.gate else None,
    )
    return spec, _uses(scene, block, parts, sinks, output)


def _parts(scene: Scene, block: Block, core: Core) -> Latent:
    tokens, module = scene.ids.shape[1], block.module
    values = walk(scene, block, core.v.seen, core.v.index)
    rank = columns(values.product.source.value, tokens)
    kv_low = walk(scene, block, values.product.source, torch.arange(rank.shape[1])[None])
    nope = _plain_part(core, values, tokens, module)
    q = walk(scene, block, core.q.seen, core.q.index)
    q_low = None
    if not q.reads(block.x):
        width = columns(q.product.source.value, tokens).shape[1]
        q_low = walk(scene, block, q.product.source, torch.arange(width)[None])
    if not torch.equal(kv_low.rows[0], torch.arange(kv_low.rows.shape[1])):
        raise UnexplainedError(module, (), "the latent of keys and values is not the leading part of its product")
    rope = _shared_rope(scene, block, core, q, kv_low.product, nope)
    return Latent(q_low, q, kv_low, values, nope, rope)


def _plain_part(core: Core, values: Chain, tokens: int, module: str) -> int:
    """How many leading elements of a key come from the product that makes the values."""
    made = columns(values.product.out.value, tokens)
    keys = columns(core.k.seen.value, tokens)[:, core.k.index.flatten()]
    found = matches(keys, made).reshape(core.k.index.shape)
    nope = int((found[0] >= 0).sum())
    heads, value_dim = values.rows.shape
    per_head = torch.arange(heads)[:, None] * (nope + value_dim)
    if not (
        torch.equal(found[:, :nope], per_head + torch.arange(nope))
        and torch.equal(values.rows, per_head + nope + torch.arange(value_dim))
        and bool((found[:, nope:] < 0).all())
    ):
        raise UnexplainedError(module, (), "keys and values do not lie as [key, value] per head in one product")
    return nope


def _shared_rope(scene: Scene, block: Block, core: Core, q: Chain, low: Product, nope: int) -> Rope | None:
    tokens, config, layer, module = scene.ids.shape[1], scene.config, block.layer, block.module
    after = core.k.value[..., nope:]
    before = columns(low.out.value, tokens)[:, low.outs - after.shape[-1] :][None]
    if relative(after, after[:1].expand_as(after)) > 0:
        raise UnexplainedError(module, (), "heads have different rotated keys")
    turned = q.only(Rotated)
    if turned is None:
        if relative(before, after[:1]) > EXACT:
            raise UnexplainedError(module, (), "only keys are rotated")
        return None
    keys = {_of_part(rope): error for error, rope in fit_rope(config, layer, before, after[:1])}
    joint = [(max(error, keys.get(_of_part(rope), math.inf)), rope) for error, rope in turned.tried]
    error, rope = min(joint, key=lambda pair: pair[0])
    if error > EXACT:
        raise UnexplainedError(module, (("rope", error),), "queries and keys are rotated differently")
    return rope.model_copy(update={"place": "trailing"})


def _of_part(rope: Rope) -> tuple[Any, ...]:
    """What a rotation is apart from where in the head it happens."""
    return rope.style, rope.rotary_dim.number, rope.parameters, rope.theta.number, rope.rope_type, rope.position_offset


def _rank(config: Any, low: Chain | None, block: Block) -> Value | None:
    return sized(config, low.rows.shape[1], ("q_lora_rank",), ("rank",), block) if low else None


def _scale(config: Any, number: float, key: str) -> Value | None:
    """A multiplier of a latent; √(hidden_size / rank) in LongCat."""
    if abs(number - 1.0) < 1e-6:
        return None
    return bind(config, number, (key,), forms=("inverse_square_root",), factors=(1.0, math.sqrt(config.hidden_size)))


def _bound_scale(config: Any, number: float, dim: int, module: str) -> Value:
    """The scale, which YaRN's `mscale_all_dim` multiplies twice."""
    given = getattr(config, "rope_parameters", None) or {}
    factor, share = given.get("factor"), given.get("mscale_all_dim")
    if factor and share and factor > 1:
        stretched = (0.1 * share * math.log(factor) + 1.0) ** 2
        exact = snapped(number, [stretched * dim**-0.5])
        found = bind(config, exact, ("qk_head_dim",), forms=("inverse_square_root",), factors=(stretched,))
        if found.key:
            return found
    return fit_scale(config, number, dim, module)


def _uses(
    scene: Scene, block: Block, parts: Latent, sinks: torch.Tensor | None, output: Output
) -> tuple[ParameterUse, ...]:
    low = replace(parts.kv_low, rows=torch.arange(parts.kv_low.product.outs)[None])
    kv = replace(parts.kv, rows=torch.arange(parts.kv.product.outs)[None])
    chains = {"kv_a_proj": low, "kv_b_proj": kv}
    chains |= {"q_a_proj": parts.q_low, "q_b_proj": parts.q} if parts.q_low else {"q_proj": parts.q}
    if output.gate:
        chains["gate_proj"] = output.gate[1]
    norms = {"kv_norm": parts.kv_low.only(HeadNorm), "q_norm": parts.q_low.only(HeadNorm) if parts.q_low else None}
    return (
        *uses_of(chains, scene.config, block.module),
        *shared_uses(scene, block, norms, sinks, output),
    )
