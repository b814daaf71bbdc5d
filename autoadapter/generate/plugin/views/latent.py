"""Latent attention in rendered code: vLLM's MLA where it serves the model with it, else expanded heads."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autoadapter.artifacts.decoder import DecoderSpec, LatentAttention, Norm, Rope, Value
from autoadapter.errors import UnsupportedModelError
from autoadapter.generate.plugin.expressions import expression
from autoadapter.generate.plugin.views.attention import LAYERS, GateView
from autoadapter.generate.plugin.views.choices import Choices
from autoadapter.generate.plugin.views.norms import NormClass, norm_use
from autoadapter.generate.plugin.views.rope import RopeView, rope_view

RELATIVE = 1e-5
"""How near two scales must be to be the same."""
YARN = f"{LAYERS}.rotary_embedding.deepseek_scaling_rope"
YARN_KEYS = ("mscale", "mscale_all_dim")


@dataclass(frozen=True)
class LatentView:
    """One class of latent attention, of the kinds of layers that it serves."""

    class_name: str
    choices: tuple[str, ...]
    sizes: Mapping[str, str]
    """Expressions of the sizes, by field of the spec."""
    has_query_latent: bool
    q_norm: str | None
    kv_norm: str | None
    a_bias: bool
    partly_biased: bool
    o_bias: bool
    q_scale: str | None
    kv_scale: str | None
    rope: RopeView | None
    scale: str
    needs_mscale: bool
    window: str | None
    gate: GateView | None
    absorbs: bool
    """Whether vLLM's MLA computes it, too."""
    padded: bool
    """Values are narrower than queries and keys."""
    helpers: tuple[NormClass, ...]
    imports: frozenset[tuple[str, str]]
    uses_kind_names: bool
    kind: str = "latent_attention"
    takes_positions: bool = True

    @classmethod
    def of(cls, mixers: Mapping[int, LatentAttention], spec: DecoderSpec, class_name: str) -> "LatentView":
        """The class for the latent attentions of some kinds, which have one shape.

        Raises:
            UnsupportedModelError: it cannot be computed by vLLM's attention.
        """
        first = next(iter(mixers.values()))
        _refuse(first)
        choices = Choices(spec)
        windows = {kind: mixer.window.size if mixer.window else None for kind, mixer in mixers.items()}
        scale, needs_mscale = _scale(first, spec)
        uses = [norm_use(norm) for norm in (first.q_norm, first.kv_norm) if norm]
        q_norm = _made(first.q_norm, "self.q_lora_rank")
        rope = rope_view(mixers, spec, choices, int(first.qk_rope_head_dim.number)) if first.rope else None
        return cls(
            class_name=class_name,
            sizes=_sizes(first, spec),
            has_query_latent=first.q_lora_rank is not None,
            q_norm=q_norm,
            kv_norm=_made(first.kv_norm, "self.kv_lora_rank"),
            a_bias=first.q_a_bias or first.kv_a_bias,
            partly_biased=first.q_lora_rank is not None and first.q_a_bias != first.kv_a_bias,
            o_bias=first.o_bias,
            q_scale=_multiplier(first.q_scale, spec),
            kv_scale=_multiplier(first.kv_scale, spec),
            rope=rope,
            scale=scale,
            needs_mscale=needs_mscale,
            window=choices.pick_value(windows) if any(windows.values()) else None,
            gate=GateView.of(first.gate) if first.gate else None,
            absorbs=absorbs(first),
            padded=first.v_head_dim.number != first.qk_nope_head_dim.number + first.qk_rope_head_dim.number,
            choices=choices.lines,
            uses_kind_names=choices.uses_kind_names,
            helpers=tuple(use.helper for use in uses if use.helper),
            imports=_imports(first, bool(choices.lines), needs_mscale).union(*(use.imports for use in uses)),
        )

    @property
    def rope_parameters(self) -> str:
        """What `get_rope` is given: DeepSeek's YaRN has a multiplier for cosines of its own."""
        if self.rope is None:
            return "None"
        if not self.needs_mscale:
            return self.rope.parameters
        return '{**rope_parameters, "rope_type": "deepseek_yarn"}'


def absorbs(mixer: LatentAttention) -> bool:
    """Whether vLLM's MLA computes it: it knows no multipliers, windows or gates inside."""
    odd = (mixer.q_scale, mixer.kv_scale, mixer.window, mixer.gate)
    normed = mixer.kv_norm is not None and (mixer.q_norm is not None or mixer.q_lora_rank is None)
    return normed and all(part is None for part in odd)


def _refuse(mixer: LatentAttention) -> None:
    if mixer.sinks:
        raise UnsupportedModelError("Latent attention with sinks cannot be rendered.")
    if mixer.v_head_dim.number > mixer.qk_nope_head_dim.number + mixer.qk_rope_head_dim.number:
        raise UnsupportedModelError("Latent attention whose values are wider than its keys cannot be rendered.")


def _made(norm: Norm | None, width: str) -> str | None:
    return norm_use(norm).made(width, expression(norm.eps)) if norm else None


def _sizes(mixer: LatentAttention, spec: DecoderSpec) -> dict[str, str]:
    names = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "num_heads")
    values = {name: getattr(mixer, name) for name in names}
    found = {name: expression(value) for name, value in values.items() if value is not None}
    return found | {"hidden_size": expression(spec.hidden_size)}


def _multiplier(value: Value | None, spec: DecoderSpec) -> str | None:
    """A multiplier; √(hidden size / rank) of the latent, where its factor is the root of the hidden size."""
    if value is None:
        return None
    hidden = spec.hidden_size
    of_widths = value.form == "inverse_square_root" and math.isclose(value.factor**2, hidden.number, rel_tol=RELATIVE)
    if value.key and of_widths:
        rank = value.model_copy(update={"form": "identity", "factor": 1.0})
        return f"({expression(hidden)} / {expression(rank)}) ** 0.5"
    return expression(value)


def _scale(mixer: LatentAttention, spec: DecoderSpec) -> tuple[str, bool]:
    """The expression of the scale, and whether YaRN's multiplier is in it.

    It is 1/√(width of queries), times YaRN's multiplier squared where the config has one, unless another key states it.
    """
    if mixer.scale.key not in (None, "qk_head_dim"):
        return expression(mixer.scale), False
    plain = (mixer.qk_nope_head_dim.number + mixer.qk_rope_head_dim.number) ** -0.5
    if math.isclose(mixer.scale.number, plain, rel_tol=RELATIVE):
        return "self.qk_head_dim**-0.5", _has_mscale(mixer.rope, spec)
    if _has_mscale(mixer.rope, spec):
        parameters = _parameters(mixer.rope, spec)
        mscale = _mscale(parameters["factor"], parameters.get("mscale_all_dim", 0.0))
        if math.isclose(mixer.scale.number, plain * mscale**2, rel_tol=RELATIVE):
            return "self.qk_head_dim**-0.5", True
    return f"self.qk_head_dim**-0.5 * {mixer.scale.number / plain!r}", False


def _parameters(rope: Rope | None, spec: DecoderSpec) -> dict[str, Any]:
    node: Any = spec.config_seen
    for part in (rope.parameters or "").split(".") if rope else ():
        node = node.get(part, {}) if isinstance(node, dict) else {}
    return node if rope and isinstance(node, dict) else {}


def _has_mscale(rope: Rope | None, spec: DecoderSpec) -> bool:
    stated = _parameters(rope, spec)
    return rope is not None and rope.rope_type == "yarn" and any(stated.get(key) for key in YARN_KEYS)


def _mscale(factor: float, mscale: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0


def _imports(mixer: LatentAttention, has_choices: bool, needs_mscale: bool) -> frozenset[tuple[str, str]]:
    linear = f"{LAYERS}.linear"
    found = {
        ("torch", ""),
        ("vllm.distributed", "get_tensor_model_parallel_world_size"),
        (f"{LAYERS}.attention", "Attention"),
        (linear, "ColumnParallelLinear"),
        (linear, "RowParallelLinear"),
        (linear, "MergedColumnParallelLinear" if mixer.q_lora_rank else "ReplicatedLinear"),
    }
    if mixer.rope:
        found.add((f"{LAYERS}.rotary_embedding", "get_rope"))
    if absorbs(mixer):
        found |= {(f"{LAYERS}.mla", "MLAModules"), (f"{LAYERS}.mla", "MultiHeadLatentAttentionWrapper")}
    if needs_mscale:
        found.add((YARN, "yarn_get_mscale"))
    if has_choices:
        found.add(("vllm.model_executor.models.utils", "extract_layer_index"))
    return frozenset(found)
