"""The rendered model file: every field of a spec is said in it or refused, and it is formatted."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hand_specs import gpt2_spec, llama_spec

from autoadapter.artifacts.base import Frozen
from autoadapter.artifacts.decoder import (
    Alibi,
    Attention,
    Branch,
    DecoderSpec,
    Embedding,
    Head,
    HeadTransform,
    LayerPattern,
    LayerRule,
    Mlp,
    Norm,
    OutputGate,
    Positions,
    Rope,
    Window,
)
from autoadapter.errors import UnsupportedModelError
from autoadapter.generate.plugin.views import ModelModule
from autoadapter.rendering.env import render

VERSION = "0.32.0"
Change = tuple[str, Any]
TWO: dict[str, Any] = {"number": 2.0}
EPS: dict[str, Any] = {"number": 1e-5}
RMS: dict[str, Any] = {"kind": "rms", "eps": EPS}
ATTENTION = "kinds.0.branches.0.mixer"
MLP = "kinds.0.branches.1.mixer"
FIRST = "kinds.0.branches.0"
SECOND = "kinds.0.branches.1"
GATE: Change = (f"{ATTENTION}.gate", {"activation": "sigmoid"})
WINDOW: Change = (f"{ATTENTION}.window", {"size": {"number": 6}})
NO_ROPE: Change = (f"{ATTENTION}.rope", None)
ALIBI: Change = (f"{ATTENTION}.alibi", {"slopes": "power_of_two"})
MPT: Change = (f"{ATTENTION}.alibi", {"slopes": "mpt", "bias_max": {"number": 8}})
LEARNED: Change = ("embedding.positions", {"kind": "learned", "rows": {"number": 64}})
SINES: Change = ("embedding.positions", {"kind": "sinusoidal"})
TRANSFORM: Change = ("head.transform", {"activation": "gelu", "bias": False, "norm": None})
Q_NORM: Change = (f"{ATTENTION}.q_norm", RMS)

FLIPS: dict[type[Frozen], dict[str, tuple[list[Change], Change]]] = {
    Attention: {
        **{name: ([], (f"{ATTENTION}.{name}", {"number": 2})) for name in ("num_heads", "num_kv_heads", "v_head_dim")},
        **{name: ([], (f"{ATTENTION}.{name}", True)) for name in ("q_bias", "k_bias", "v_bias", "o_bias", "sinks")},
        **{name: ([], (f"{ATTENTION}.{name}", RMS)) for name in ("q_norm", "k_norm", "v_norm", "sub_norm")},
        **{
            name: ([], (f"{ATTENTION}.{name}", TWO))
            for name in ("clip", "key_scale", "value_scale", "scale", "softcap")
        },
        "head_dim": ([], (f"{ATTENTION}.head_dim", {"number": 64})),
        "norm_width": ([Q_NORM], (f"{ATTENTION}.norm_width", "full")),
        "norm_after_rope": ([Q_NORM], (f"{ATTENTION}.norm_after_rope", True)),
        "rope": ([], NO_ROPE),
        "window": ([], WINDOW),
        "alibi": ([NO_ROPE], ALIBI),
        "gate": ([], GATE),
        "causal_offset": ([], (f"{ATTENTION}.causal_offset", 1)),
    },
    OutputGate: {
        "activation": ([GATE], (f"{ATTENTION}.gate.activation", "silu")),
        "width": ([GATE], (f"{ATTENTION}.gate.width", "head")),
        "bias": ([GATE], (f"{ATTENTION}.gate.bias", True)),
        "scale": ([GATE], (f"{ATTENTION}.gate.scale", TWO)),
    },
    Rope: {
        "style": ([], (f"{ATTENTION}.rope.style", "interleaved")),
        "rotary_dim": ([], (f"{ATTENTION}.rope.rotary_dim", {"number": 16})),
        "place": ([(f"{ATTENTION}.rope.rotary_dim", {"number": 16})], (f"{ATTENTION}.rope.place", "trailing")),
        "parameters": ([], (f"{ATTENTION}.rope.parameters", None)),
        "theta": ([], (f"{ATTENTION}.rope.theta", TWO)),
        "rope_type": ([], (f"{ATTENTION}.rope.rope_type", "yarn")),
        "position_offset": ([], (f"{ATTENTION}.rope.position_offset", 1)),
        "negative": ([], (f"{ATTENTION}.rope.negative", True)),
    },
    Window: {
        "kind": ([WINDOW], (f"{ATTENTION}.window.kind", "chunked")),
        "size": ([WINDOW], (f"{ATTENTION}.window.size", {"number": 7})),
    },
    Alibi: {
        "slopes": ([NO_ROPE, ALIBI], (f"{ATTENTION}.alibi.slopes", "mpt")),
        "bias_max": ([NO_ROPE, MPT], (f"{ATTENTION}.alibi.bias_max", TWO)),
        "scaled": ([NO_ROPE, ALIBI], (f"{ATTENTION}.alibi.scaled", True)),
    },
    Mlp: {
        "intermediate_size": ([], (f"{MLP}.intermediate_size", {"number": 64})),
        "gated": ([], (f"{MLP}.gated", False)),
        "activation": ([], (f"{MLP}.activation", "relu2")),
        **{name: ([], (f"{MLP}.{name}", True)) for name in ("up_bias", "down_bias")},
        "inner_norm": ([], (f"{MLP}.inner_norm", RMS)),
        **{name: ([], (f"{MLP}.{name}", TWO)) for name in ("gate_scale", "down_scale", "gate_limit")},
    },
    Norm: {
        "kind": ([], ("norm.kind", "layer")),
        "eps": ([], ("norm.eps", EPS)),
        "weight": ([], ("norm.weight", "one_plus")),
        "bias": ([], ("norm.bias", True)),
        "groups": ([], ("norm.groups", {"number": 4})),
    },
    Branch: {
        "reads": ([], (f"{SECOND}.reads", "layer_input")),
        "shares_norm_with": (
            [(f"{SECOND}.reads", "layer_input"), (f"{SECOND}.input_norm", None)],
            (f"{SECOND}.shares_norm_with", 0),
        ),
        **{name: ([], (f"{FIRST}.{name}", TWO)) for name in ("input_scale", "output_scale", "stream_scale")},
        "input_norm": ([], (f"{FIRST}.input_norm", None)),
        "output_norm": ([], (f"{FIRST}.output_norm", RMS)),
        "post_norm": ([], (f"{FIRST}.post_norm", RMS)),
        "keeps_normed": ([], (f"{FIRST}.keeps_normed", True)),
    },
    Positions: {
        "kind": ([LEARNED], ("embedding.positions.kind", "sinusoidal")),
        "offset": ([LEARNED], ("embedding.positions.offset", 2)),
        "order": ([SINES], ("embedding.positions.order", "interleaved")),
        "frequencies": ([SINES], ("embedding.positions.frequencies", "fairseq")),
        "rows": ([LEARNED], ("embedding.positions.rows", {"number": 99})),
    },
    Embedding: {
        "scale": ([], ("embedding.scale", TWO)),
        "scale_in_weight_dtype": ([("embedding.scale", TWO)], ("embedding.scale_in_weight_dtype", True)),
        "width": ([], ("embedding.width", {"number": 64})),
        "positions": ([], LEARNED),
        "norm": ([], ("embedding.norm", RMS)),
    },
    Head: {
        **{name: ([], (f"head.{name}", True)) for name in ("tied", "bias")},
        **{name: ([], (f"head.{name}", TWO)) for name in ("scale", "softcap")},
        "transform": ([], TRANSFORM),
        "projected": ([("embedding.width", {"number": 64})], ("head.projected", True)),
    },
    HeadTransform: {
        "activation": ([TRANSFORM], ("head.transform.activation", "relu")),
        "bias": ([TRANSFORM], ("head.transform.bias", True)),
        "norm": ([TRANSFORM], ("head.transform.norm", RMS)),
    },
}
DISCRIMINATORS = ("mixer",)


def rendered(spec: DecoderSpec) -> str:
    return render(ModelModule.of(spec, vllm_version=VERSION))


def changed(changes: list[Change]) -> DecoderSpec:
    spec = llama_spec()
    for path, value in changes:
        spec = spec.with_value(path, value)
    return spec


@pytest.mark.parametrize("part", FLIPS, ids=lambda part: part.__name__)
def test_table_names_every_field(part: type[Frozen]) -> None:
    assert set(FLIPS[part]) == set(part.model_fields) - set(DISCRIMINATORS)


@pytest.mark.parametrize(
    ("before", "flip"),
    [
        pytest.param(*flip, id=f"{part.__name__}.{name}")
        for part, flips in FLIPS.items()
        for name, flip in flips.items()
    ],
)
def test_no_field_is_ignored(before: list[Change], flip: Change) -> None:
    usual = rendered(changed(before))
    try:
        other = rendered(changed([*before, flip]))
    except UnsupportedModelError as error:
        assert flip[0].split(".")[-1] in str(error)
    else:
        assert other != usual


def test_files_are_formatted(tmp_path: Path) -> None:
    specs = [llama_spec(), gpt2_spec(), two_kinds(ruled=True), two_kinds(ruled=False)]
    specs += [changed([*before, flip]) for flips in FLIPS.values() for before, flip in flips.values()]
    for number, spec in enumerate(specs):
        try:
            text = rendered(spec)
        except UnsupportedModelError:
            continue
        (tmp_path / f"model_{number}.py").write_text(text, encoding="utf-8")
    options = ["--isolated", "--line-length", "120", "--no-cache"]
    for command in (["check", "--select", "E,F,I,UP,B"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *options, str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout


def two_kinds(*, ruled: bool) -> DecoderSpec:
    """The first and the last layer look 6 tokens back and rotate, the other does neither."""
    spec = llama_spec()
    near, far = (changed([change]).kinds[0] for change in (WINDOW, NO_ROPE))
    pattern = LayerPattern(kinds=(0, 1, 0))
    if ruled:
        rows = ((("near",), 0), (("far",), 1))
        pattern = LayerPattern(kinds=(0, 1, 0), rules=(LayerRule(rule="list", key="layer_types"),), table=rows)
    kinds = (near.model_copy(update={"name": "near"}), far.model_copy(update={"name": "far"}))
    seen = {**spec.config_seen, "layer_types": ["near", "far", "near"]}
    return spec.model_copy(update={"kinds": kinds, "pattern": pattern, "config_seen": seen})


def test_layers_are_told_apart_by_the_config() -> None:
    text = rendered(two_kinds(ruled=True))
    assert 'is_near = config.layer_types[layer_idx] == "near"' in text
    assert "per_layer_sliding_window=6 if is_near else None," in text
    assert "        if is_near:\n            self.rotary_emb = get_rope(" in text


def test_without_a_rule_only_the_fitted_depth_is_served() -> None:
    text = rendered(two_kinds(ruled=False))
    assert 'LAYER_KINDS = (\n    "near",\n    "far",\n    "near",\n)' in text
    assert "if config.num_hidden_layers != len(LAYER_KINDS):" in text


def test_plain_decoders_read_like_vllm() -> None:
    text = rendered(llama_spec())
    assert "hidden_states, residual = self.post_attention_layernorm(hidden_states, residual)" in text
    assert "self.scaling = self.head_dim**-0.5" in text
    assert "rope_parameters=config.rope_parameters," in text
    for word in ("layer_idx", "clamp", "alibi", "sinks", "gate_proj =", "chunk("):
        assert word not in text


def test_an_embedding_scale_is_rounded_like_the_weights() -> None:
    text = rendered(changed([("embedding.scale", TWO), ("embedding.scale_in_weight_dtype", True)]))
    assert 'self.register_buffer("embed_scale", torch.tensor(2.0), persistent=False)' in text


def test_a_window_of_the_config_stays_with_its_layers() -> None:
    spec = changed([])
    seen = {**spec.config_seen, "sliding_window": 8}
    assert "cache_config.sliding_window = None" in rendered(spec.model_copy(update={"config_seen": seen}))
    assert "cache_config.sliding_window" not in rendered(spec)
