"""Puts core, scores, chains and output of a block together to an `Attention`."""

from dataclasses import dataclass, replace
from typing import Any

import torch

from autoadapter.artifacts.decoder import Attention, Rope, Value
from autoadapter.probe.workers.fit.attention.chain import Activated, Chain, Clipped, Rotated, walk
from autoadapter.probe.workers.fit.attention.core import Core
from autoadapter.probe.workers.fit.attention.head_norms import HeadNorm
from autoadapter.probe.workers.fit.attention.output import Output
from autoadapter.probe.workers.fit.attention.packing import uses_of
from autoadapter.probe.workers.fit.attention.scores import Scores, fit_alibi, fit_window
from autoadapter.probe.workers.fit.attention.sizes import (
    HEAD_DIM,
    HEADS,
    KV_HEADS,
    fit_scale,
    numbers,
    sized,
    snapped,
)
from autoadapter.probe.workers.fit.binding import bind
from autoadapter.probe.workers.fit.fitted import ParameterUse, UnexplainedError
from autoadapter.probe.workers.scene import Block, Scene

CAP_KEYS = ("attn_logit_softcapping", "attn_logit_softcap", "attn_logits_soft_cap", "attn_logit_soft_cap")
CLIP_KEYS = ("attn_config.clip_qkv", "clip_qkv", "attn_clip_qkv")


@dataclass(frozen=True, eq=False)
class Projections:
    """The three chains, keys and values without repeated heads."""

    q: Chain
    k: Chain
    v: Chain


def without_repeats(chain: Chain, heads: int, module: str) -> Chain:
    """The chain with each key head once.

    Raises:
        UnexplainedError: query head h does not use key head h // group.
    """
    kept = [0]
    for head in range(1, heads):
        if not torch.equal(chain.rows[head], chain.rows[kept[-1]]):
            kept.append(head)
    count = len(kept)
    if heads % count or kept != list(range(0, heads, heads // count)) or len(set(chain.rows[kept, 0].tolist())) < count:
        raise UnexplainedError(module, (), "query heads do not share key heads in consecutive groups")
    return Chain(chain.product, chain.rows[kept], chain.steps)


def fit_projections(scene: Scene, block: Block, core: Core) -> Projections:
    """Queries, keys and values back to the input."""
    heads = core.q.value.shape[0]
    q, k, v = (walk(scene, block, part.seen, part.index) for part in (core.q, core.k, core.v))
    return Projections(q, without_repeats(k, heads, block.module), without_repeats(v, heads, block.module))


def fit_softmax(
    scene: Scene, block: Block, core: Core, scores: Scores, output: Output
) -> tuple[Attention, tuple[ParameterUse, ...]]:
    """The spec and where its parameters are."""
    config, module = scene.config, block.module
    parts = fit_projections(scene, block, core)
    for name, chain in (("queries", parts.q), ("keys", parts.k), ("values", parts.v)):
        if not chain.reads(block.x):
            raise UnexplainedError(module, (), f"{name} are projected from something else than the block's input")
        if chain.only(Activated):
            raise UnexplainedError(module, (), f"an activation on {name}")
    (heads, dim), v_dim = core.q.index.shape, core.v.index.shape[1]
    key_scale = fit_key_scale(config, parts.k)
    total = scores.slope * parts.q.scale * (1.0 if key_scale else parts.k.scale)
    scale = fit_scale(config, total, dim, module)
    norms = {name: chain.only(HeadNorm) for name, chain in (("q", parts.q), ("k", parts.k), ("v", parts.v))}
    clips = {name: chain.only(Clipped) for name, chain in (("q", parts.q), ("k", parts.k), ("v", parts.v))}
    sinks = scores.sinks if scores.sinks is not None else output.sinks
    alibi = fit_alibi(config, scores.alibi, float(scale.number), module)[0] if scores.alibi is not None else None
    spec = Attention(
        num_heads=sized(config, heads, HEADS, ("head",), block),
        num_kv_heads=_kv_heads(config, parts.k.rows.shape[0], block),
        head_dim=_head_dim(config, heads, dim, block),
        v_head_dim=sized(config, v_dim, ("v_head_dim",), ("v_head", "value_head"), block) if v_dim != dim else None,
        q_bias=parts.q.product.bias is not None,
        k_bias=parts.k.product.bias is not None,
        v_bias=parts.v.product.bias is not None,
        o_bias=output.product.bias is not None,
        clip=_clip(config, clips, module),
        q_norm=norms["q"].fitted.value if norms["q"] else None,
        k_norm=norms["k"].fitted.value if norms["k"] else None,
        v_norm=norms["v"].fitted.value if norms["v"] else None,
        norm_width=next((norm.width for norm in (norms["q"], norms["k"]) if norm), "head"),
        norm_after_rope=_after_rope(parts),
        rope=fit_shared_rope(parts.q, parts.k, module),
        key_scale=key_scale,
        scale=scale,
        softcap=bind(config, snapped(scores.softcap, numbers(config, CAP_KEYS)), CAP_KEYS) if scores.softcap else None,
        window=fit_window(config, scores.window, block),
        alibi=alibi,
        value_scale=_value_scale(config, parts.v.scale),
        sinks=sinks is not None,
        gate=output.gate[0] if output.gate else None,
        sub_norm=output.sub_norm.fitted.value if output.sub_norm else None,
    )
    return spec, _uses(scene, block, parts, sinks, output)


def _head_dim(config: Any, heads: int, dim: int, block: Block) -> Value:
    """Without a key it is hidden_size / heads."""
    found = bind(config, dim, HEAD_DIM)
    usual = found.key is None and dim * heads == config.hidden_size
    return found if found.key or usual else sized(config, dim, HEAD_DIM, ("head_dim", "head_size"), block)


def _kv_heads(config: Any, count: int, block: Block) -> Value:
    """One key head for all is a thing of its own: no key counts it under `multi_query`."""
    found = bind(config, count, KV_HEADS)
    if found.key is None and count == 1:
        return Value(number=1)
    twice = bind(config, count, KV_HEADS, factors=(2.0, 0.5))
    if twice.key and bind(config, count, HEADS).key is None:
        return twice
    return sized(config, count, (*KV_HEADS, *HEADS), ("kv", "key_value", "group"), block)


def fit_key_scale(config: Any, chain: Chain) -> Value | None:
    """A multiplier of the keys that the config states; any other is part of the scale."""
    found = bind(config, chain.scale, ("key_multiplier", "key_scale"))
    return found if found.key and chain.scale != 1.0 else None


def _value_scale(config: Any, number: float) -> Value | None:
    return None if number == 1.0 else bind(config, number, ("attention_value_scale", "value_scale"))


def _clip(config: Any, clips: dict[str, Clipped | None], module: str) -> Value | None:
    numbers = {clip.number if clip else None for clip in clips.values()}
    if len(numbers) != 1:
        raise UnexplainedError(module, (), "queries, keys and values are clamped differently")
    number = numbers.pop()
    return None if number is None else bind(config, number, CLIP_KEYS)


def _after_rope(parts: Projections) -> bool:
    order = [type(step) for step in parts.q.steps if isinstance(step, HeadNorm | Rotated)]
    return order == [Rotated, HeadNorm]


def fit_shared_rope(q: Chain, k: Chain, module: str) -> Rope | None:
    """The rotation that explains queries and keys at once."""
    rotations = [chain.only(Rotated) for chain in (q, k)]
    if rotations == [None, None]:
        return None
    if None in rotations:
        raise UnexplainedError(module, (), "only queries or only keys are rotated")
    errors = {rope: error for error, rope in rotations[1].tried}
    joint = [(max(error, errors.get(rope, float("inf"))), rope) for error, rope in rotations[0].tried]
    return min(joint, key=lambda pair: pair[0])[1]


def _uses(
    scene: Scene, block: Block, parts: Projections, sinks: torch.Tensor | None, output: Output
) -> tuple[ParameterUse, ...]:
    chains = {"q_proj": parts.q, "k_proj": parts.k, "v_proj": parts.v}
    norms = {f"{name[0]}_norm": chain.only(HeadNorm) for name, chain in chains.items()}
    if output.gate:
        chains["gate_proj"] = output.gate[1]
    return (*uses_of(chains, scene.config, block.module), *shared_uses(scene, block, norms, sinks, output))


def shared_uses(
    scene: Scene, block: Block, norms: dict[str, HeadNorm | None], sinks: torch.Tensor | None, output: Output
) -> tuple[ParameterUse, ...]:
    """Where the parameters of norms, sinks and the output projection are."""
    uses = []
    uses.append(ParameterUse(output.product.weight, ("o_proj.weight",), transposed=output.product.transposed))
    if output.product.bias:
        uses.append(ParameterUse(output.product.bias, ("o_proj.bias",)))
    for name, norm in {**norms, "sub_norm": output.sub_norm}.items():
        for use in norm.fitted.uses if norm else ():
            uses.append(replace(use, targets=tuple(f"{name}.{target}" for target in use.targets)))
    if sinks is not None:
        uses.append(ParameterUse(_sink_parameter(scene, block, sinks), ("sinks",)))
    return tuple(uses)


def _sink_parameter(scene: Scene, block: Block, sinks: torch.Tensor) -> str:
    named = {seen.parameter for event in block.events for seen in event.ins if seen.parameter}
    for name in sorted(named):
        value = scene.parameter(name).detach().float().flatten()
        if value.shape == sinks.shape and bool((value - sinks).abs().max() < 1e-3 * value.abs().max().clamp(min=1e-3)):
            return name
    raise UnexplainedError(block.module, (), "a sink that is no parameter")
