"""Attention blocks are explained by data flow and numbers."""

from typing import Any

import pytest
import torch
from attention_alone import ATTENTION_CONFIG, DIM, LowRank, Packed, Separate
from blocks_alone import seen_alone

from autoadapter.artifacts.decoder import LatentAttention
from autoadapter.probe.workers.fit.attention import fit_attention
from autoadapter.probe.workers.fit.fitted import Fitted, UnexplainedError


def fitted(module: torch.nn.Module, **config: Any) -> Fitted[Any]:
    return fit_attention(*seen_alone(module, **{**ATTENTION_CONFIG, **config}))


def test_grouped_queries_with_a_rotation() -> None:
    found = fitted(Separate(rope={}, bias=True))
    spec = found.value
    assert (spec.num_heads.key, spec.num_kv_heads.key, spec.head_dim.key) == (
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
    )
    assert (spec.rope.style, spec.rope.theta.key, spec.rope.rotary_dim.key) == ("neox", "rope_theta", "head_dim")
    assert (spec.scale.key, spec.scale.form) == ("head_dim", "inverse_square_root")
    assert (spec.q_bias, spec.k_bias, spec.v_bias, spec.o_bias) == (True, True, False, False)
    assert {(use.parameter, use.targets) for use in found.uses} >= {
        ("z.0.q.a.weight", ("q_proj.weight",)),
        ("z.0.q.b.bias", ("k_proj.bias",)),
        ("z.0.q.d.weight", ("o_proj.weight",)),
    }


@pytest.mark.parametrize(("width", "interleaved"), [(DIM, True), (6, False), (8, True)])
def test_rotation_styles_and_parts(width: int, interleaved: bool) -> None:
    rope = fitted(Separate(rope={"width": width, "interleaved": interleaved})).value.rope
    assert (rope.rotary_dim.number, rope.style) == (width, "interleaved" if interleaved else "neox")


def test_a_rotation_that_the_config_does_not_state_is_refused() -> None:
    with pytest.raises(UnexplainedError) as caught:
        fitted(Separate(rope={"theta": 777.0}))
    assert "rope" in caught.value.candidates[0][0]


def test_a_window_is_measured_and_named() -> None:
    window = fitted(Separate(window=7), sliding_window=7).value.window
    assert (window.kind, window.size.key) == ("sliding", "sliding_window")
    with pytest.raises(UnexplainedError, match="7 is a size"):
        fitted(Separate(window=7))


def test_scale_and_soft_cap() -> None:
    spec = fitted(Separate(scale=0.2, cap=1.5), attention_multiplier=0.2, attn_logit_softcapping=1.5).value
    assert (spec.scale.key, spec.softcap.key) == ("attention_multiplier", "attn_logit_softcapping")


def test_head_norms() -> None:
    spec = fitted(Separate(norm=True, rope={}), rms_norm_eps=1e-5).value
    assert (spec.q_norm.kind, spec.norm_width, spec.norm_after_rope) == ("rms", "head", False)
    assert spec.k_norm.eps.key == "rms_norm_eps"


def test_gate_sinks_and_clip() -> None:
    found = fitted(Separate(gate=True, sinks=True, clip=1.25), clip_qkv=1.25)
    spec = found.value
    assert (spec.gate.activation, spec.gate.width, spec.gate.bias) == ("sigmoid", "head", True)
    assert (spec.sinks, spec.clip.key) == (True, "clip_qkv")
    assert ("z.0.q.h", ("sinks",)) in {(use.parameter, use.targets) for use in found.uses}


@pytest.mark.parametrize(
    ("layout", "groups", "order"), [("stacked", 1, "qkv"), ("heads", 4, "qkv"), ("mixed", 2, "qvk")]
)
def test_packed_projections_and_linear_biases(layout: str, groups: int, order: str) -> None:
    found = fitted(Packed(layout), num_key_value_heads=None)
    weight = found.uses[0]
    assert (weight.parameter, weight.transposed, weight.groups.number) == ("z.0.q.a", True, groups)
    assert weight.targets == tuple(f"{letter}_proj.weight" for letter in order)
    assert found.value.alibi.slopes == "power_of_two"


def test_latent_attention() -> None:
    sizes = {"kv_lora_rank": 10, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 6, "qk_head_dim": 12}
    spec = fitted(LowRank(), **sizes).value
    assert isinstance(spec, LatentAttention)
    assert spec.rope is not None and spec.kv_norm is not None
    assert (spec.kv_lora_rank.key, spec.q_lora_rank, spec.qk_rope_head_dim.key) == (
        "kv_lora_rank",
        None,
        "qk_rope_head_dim",
    )
    assert (spec.rope.style, spec.rope.place, spec.kv_norm.kind) == ("interleaved", "trailing", "rms")


def test_the_runner_up_is_told_with_its_error() -> None:
    told = {item.path: item for item in fitted(Separate(rope={}, window=7), sliding_window=7).evidence}
    assert set(told) >= {"scale", "rope.style", "rope.theta", "window"}
    assert all((item.runner_up_error or 0) > 1e-3 > 1e-5 > item.max_error for item in told.values())


@pytest.mark.parametrize("options", [{"repeat": True}, {"bias_on_scores": True}], ids=str)
def test_what_no_candidate_explains_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UnexplainedError):
        fitted(Separate(**options))
