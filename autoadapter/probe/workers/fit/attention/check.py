"""Recomputes a fitted block, and says what every fitted value is worth: the error with its runner-up."""

from collections.abc import Callable
from typing import Any

import torch

from autoadapter.artifacts.decoder import Attention, Evidence, LatentAttention
from autoadapter.probe.workers.fit.attention.compute import attention, latent_attention
from autoadapter.probe.workers.fit.attention.flow import relative
from autoadapter.probe.workers.fit.attention.rivals import rivals
from autoadapter.probe.workers.fit.attention.unpack import unpack
from autoadapter.probe.workers.fit.fitted import Fitted, ParameterUse, UnexplainedError
from autoadapter.probe.workers.scene import Block, Scene

EXACT = 5e-5
"""Relative error up to which a recomputed block is the block."""
Spec = Attention | LatentAttention


def checked(scene: Scene, block: Block, spec: Spec, uses: tuple[ParameterUse, ...]) -> Fitted[Spec]:
    """The fit with its evidence.

    Raises:
        UnexplainedError: the recomputed block is another.
    """
    given = unpack(uses, scene.parameter, sizes(spec))
    x, y = block.x.value[0].float(), block.y.value[0].float()

    def error(candidate: Spec) -> float:
        try:
            return relative(compute(candidate, given, x, scene.config), y)
        except (RuntimeError, ValueError, KeyError):
            return float("inf")  # the candidate's shapes do not fit

    own = error(spec)
    if own > EXACT:
        tried = sorted(
            ((f"{path} = {value}", error(spec.__class__.model_validate(_with(spec, path, value)))) for path, value in rivals(spec)),
            key=lambda pair: pair[1],
        )
        raise UnexplainedError(block.module, (("as fitted", own), *tried[:3]), f"the block recomputed differs by {own:.1e}")
    return Fitted(spec, own, tuple(_evidence(spec, own, error)), uses)


def compute(spec: Spec, given: dict[str, torch.Tensor], x: torch.Tensor, config: Any) -> torch.Tensor:
    """The block's output [tokens, hidden]."""
    if isinstance(spec, LatentAttention):
        return latent_attention(spec, given, x, config)
    return attention(spec, given, x, config)


def sizes(spec: Spec) -> Callable[[str], int]:
    """How many rows a target of the spec has."""

    def rows(target: str) -> int:
        name, heads = target.split(".")[0], int(spec.num_heads.number)
        if isinstance(spec, LatentAttention):
            return {
                "q_a_proj": int(spec.q_lora_rank.number) if spec.q_lora_rank else 0,
                "kv_a_proj": int(spec.kv_lora_rank.number) + int(spec.qk_rope_head_dim.number),
            }.get(name, heads)
        kv, dim = int(spec.num_kv_heads.number), int(spec.head_dim.number)
        v_dim = int(spec.v_head_dim.number) if spec.v_head_dim else dim
        gate = heads * v_dim if spec.gate and spec.gate.width == "element" else heads
        return {"q_proj": heads * dim, "k_proj": kv * dim, "v_proj": kv * v_dim, "gate_proj": gate}[name]

    return rows


def _with(spec: Spec, path: str, value: Any) -> dict[str, Any]:
    document = spec.model_dump(mode="json")
    *parents, last = path.split(".")
    node = document
    for part in parents:
        node = node[part]
    node[last] = value
    return document


def _evidence(spec: Spec, own: float, error: Callable[[Spec], float]) -> list[Evidence]:
    document, found = spec.model_dump(mode="json"), {}
    for path, value in rivals(spec):
        other = error(spec.__class__.model_validate(_with(spec, path, value)))
        if path in found and found[path].runner_up_error <= other:
            continue
        node: Any = document
        for part in path.split("."):
            node = node[part]
        shown = other if other != float("inf") else None
        found[path] = Evidence(path=path, value=node, max_error=own, runner_up=value, runner_up_error=shown or 1e9)
    return list(found.values())
