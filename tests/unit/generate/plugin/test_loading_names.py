"""From a checkpoint's names to vLLM's: every name has its place, and rules do not catch each other's names."""

import json
from pathlib import Path

import pytest
from hand_specs import gpt2_spec, llama_spec, qwen3_moe_spec, source

from autoadapter.artifacts.decoder import DecoderSpec
from autoadapter.errors import UnsupportedModelError
from autoadapter.generate.plugin.loading import LoadingView, absent_parts
from autoadapter.generate.plugin.loading.mapper import Mapper
from autoadapter.generate.plugin.loading.pairs import Pair
from autoadapter.generate.plugin.loading.renames import find_mapper
from autoadapter.generate.plugin.names import Place, mixer_name, norm_name, place

GOLDEN = Path(__file__).parents[3] / "golden_plugin" / "specs"


def test_usual_names_need_no_rename() -> None:
    mapper = LoadingView.of(llama_spec()).mapper
    assert not mapper.regex and not mapper.substr and not mapper.prefix
    assert mapper.map("model.layers.3.self_attn.k_proj.weight") == ("model.layers.3.self_attn.qkv_proj.weight", "k")
    assert mapper.map("model.layers.3.mlp.up_proj.weight") == ("model.layers.3.mlp.gate_up_proj.weight", 1)


def test_old_names_are_renamed() -> None:
    mapper = LoadingView.of(gpt2_spec()).mapper
    assert mapper.map("transformer.h.11.attn.c_attn.bias") == ("model.layers.11.self_attn.qkv_proj.bias", None)
    assert mapper.map("transformer.h.11.mlp.c_proj.weight") == ("model.layers.11.mlp.down_proj.weight", None)
    assert mapper.map("transformer.wpe.weight") == ("model.embed_positions.weight", None)


def test_experts_keep_their_numbers_and_are_not_stacked() -> None:
    mapper = LoadingView.of(qwen3_moe_spec()).mapper
    name = "model.layers.0.mlp.experts.7.up_proj.weight"
    assert mapper.map(name) == (name, None)
    assert mapper.map("model.layers.1.mlp.up_proj.weight") == ("model.layers.1.mlp.gate_up_proj.weight", 1)


def test_a_name_inside_another_is_anchored() -> None:
    pairs = [
        Pair("backbone.layers.{layer}.norm.weight", Place("model.layers.{layer}.input_layernorm.weight")),
        Pair("backbone.layers.{layer}.mixer.norm.weight", Place("model.layers.{layer}.mamba.norm.weight")),
    ]
    mapper = find_mapper(pairs, [])
    assert mapper.map("backbone.layers.10.norm.weight") == ("model.layers.10.input_layernorm.weight", None)
    assert mapper.map("backbone.layers.10.mixer.norm.weight") == ("model.layers.10.mamba.norm.weight", None)


def test_ignored_tensors_are_dropped_and_no_others() -> None:
    spec = gpt2_spec().model_copy(update={"ignored": ("transformer.h.{layer}.attn.bias", "odd.table")})
    mapper = LoadingView.of(spec).mapper
    assert mapper.map("transformer.h.0.attn.bias") is None
    assert mapper.map("odd.table") is None
    assert mapper.map("transformer.h.0.attn.c_attn.bias") is not None


def test_rules_that_cannot_be_found_are_refused() -> None:
    pairs = [
        Pair("a.{layer}.x.weight", Place("model.layers.{layer}.x.weight")),
        Pair("a.{layer}.x.weight", Place("model.layers.{layer}.y.weight")),
    ]
    with pytest.raises(UnsupportedModelError, match=r"a\.0\.x\.weight"):
        find_mapper(pairs, [])


def test_a_bias_that_only_some_projections_have_is_expected_absent() -> None:
    spec = llama_spec().with_value("kinds.0.branches.0.mixer.q_bias", True)
    spec = spec.with_value("kinds.0.branches.0.mixer.v_bias", True)
    assert absent_parts(spec) == ((".self_attn.qkv_proj.bias", "k"),)
    assert absent_parts(llama_spec()) == ()


def test_one_tensor_for_two_places_is_refused() -> None:
    spec = qwen3_moe_spec()
    odd = source("model.layers.{layer}.mlp.odd.weight", "layers.{layer}.1.router.weight")
    with pytest.raises(UnsupportedModelError, match="different places"):
        LoadingView.of(spec.model_copy(update={"weights": (*spec.weights, odd)}))


def test_names_of_a_sandwich_layer() -> None:
    kind = DecoderSpec.model_validate(json.loads((GOLDEN / "gemma2.json").read_text(encoding="utf-8"))).kinds[0]
    assert [mixer_name(kind, index) for index in (0, 1)] == ["self_attn", "mlp"]
    assert norm_name(kind, 1, "input_norm") == "pre_feedforward_layernorm"
    assert norm_name(kind, 0, "output_norm") == "post_attention_layernorm"


def test_places_of_the_ends() -> None:
    spec = llama_spec()
    assert place(spec, "embed.weight").name == "model.embed_tokens.weight"
    assert place(spec, "head.bias").name == "lm_head.bias"


def test_mapper_applies_rules_in_vllms_order() -> None:
    mapper = Mapper({r"^x\.(\d+)": r"y.\1"}, {".a.": ".b."}, {".b": (".ab", 0)}, {"y.": "z."})
    assert mapper.map("x.1.a.weight") == ("z.1.ab.weight", 0)
