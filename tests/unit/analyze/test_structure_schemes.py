"""Quantized checkpoints without headers: how each matrix is stored, and which are left alone."""

import json
from pathlib import Path

import pytest
from pydantic import JsonValue

from autoadapter.analyze.structure.modules import Modules
from autoadapter.artifacts import LayerGroup
from tests.unit.analyze.structure_files import (
    DEEPSEEK_V3,
    GPT_OSS_20B,
    MIXTRAL,
    NEMOTRON_NANO,
    Json,
    mistral,
    structure_of,
)

ROWS, COLUMNS = 14336, 4096
"""Outputs and inputs of Llama-8B's up projection."""


def arguments(**said: JsonValue) -> Json:
    return {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": said}},
    }


SCHEMES: list[tuple[str, Json, str, float]] = [
    ("fp8 in blocks", {"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8", ROWS * COLUMNS + 112 * 32 * 4),
    ("fp8 with one scale", {"quant_method": "fp8"}, "fp8", ROWS * COLUMNS + 8),
    (
        "fp8 a row",
        arguments(num_bits=8, type="float", strategy="channel"),
        "fp8",
        ROWS * COLUMNS + 4 * ROWS,
    ),
    ("int8 a row", arguments(num_bits=8, type="int", strategy="channel"), "int8", ROWS * COLUMNS + 4 * ROWS),
    (
        "int4 in groups",
        arguments(num_bits=4, type="int", strategy="group", group_size=128, symmetric=True),
        "int4",
        ROWS * COLUMNS / 2 + ROWS * 32 * 2,
    ),
    (
        "int4 in groups with zeros",
        arguments(num_bits=4, type="int", strategy="group", group_size=128, symmetric=False),
        "int4",
        ROWS * COLUMNS / 2 + ROWS * 32 * 2.5,
    ),
    (
        "gptq: zeros and an index of the inputs",
        {"quant_method": "gptq", "bits": 4, "group_size": 128},
        "int4",
        ROWS * COLUMNS / 2 + ROWS * 32 * 2.5 + 4 * COLUMNS,
    ),
    (
        "gptq a row",
        {"quant_method": "gptq", "bits": 4, "group_size": -1},
        "int4",
        ROWS * COLUMNS / 2 + ROWS * 2.5 + 4 * COLUMNS,
    ),
    ("awq", {"quant_method": "awq", "bits": 4, "group_size": 128}, "int4", ROWS * COLUMNS / 2 + ROWS * 32 * 2.5),
    (
        "nvfp4",
        {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16},
        "nvfp4",
        ROWS * COLUMNS / 2 + ROWS * COLUMNS / 16 + 8,
    ),
    (
        "nvfp4 of compressed-tensors",
        arguments(num_bits=4, type="float", strategy="tensor_group", group_size=16),
        "nvfp4",
        ROWS * COLUMNS / 2 + ROWS * COLUMNS / 16 + 8,
    ),
    ("modelopt fp8", {"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8", ROWS * COLUMNS + 8),
    ("bitsandbytes", {"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8", ROWS * COLUMNS + 4 * ROWS),
]


@pytest.mark.parametrize(("said", "word", "size"), [row[1:] for row in SCHEMES], ids=[row[0] for row in SCHEMES])
def test_one_matrix(tmp_path: Path, said: Json, word: str, size: float) -> None:
    found = structure_of(tmp_path, mistral(quantization_config=said))
    up_proj = next(one for one in found.groups[0].operators if one.name == "up_proj")
    assert (up_proj.dtype, up_proj.weight_bytes) == (word, size)
    assert found.head_bytes == found.embedding_bytes == 2 * 128256 * 4096


def words(group: LayerGroup) -> dict[str, str]:
    return {one.name: one.dtype for one in group.operators}


def test_gpt_oss_packs_experts_alone(tmp_path: Path) -> None:
    found = structure_of(tmp_path, GPT_OSS_20B)
    names = words(found.groups[0])
    assert {name for name, word in names.items() if word == "mxfp4"} == {
        "experts.gate_proj", "experts.up_proj", "experts.down_proj",
    }  # fmt: skip
    assert found.served_bytes == pytest.approx(13.761e9, rel=0.001)


def test_deepseek_v3_in_fp8(tmp_path: Path) -> None:
    """688.6 GB on the Hub are 673 without the layer that predicts ahead and its copies of both ends."""
    said: JsonValue = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    found = structure_of(tmp_path, DEEPSEEK_V3 | {"quantization_config": said})
    assert words(found.groups[1])["gate"] == "bfloat16"
    assert found.served_bytes == pytest.approx(673.15e9, rel=0.0005)


def test_excluded_modules_by_layer(tmp_path: Path) -> None:
    """ModelOpt's lists: globs of whole layers, wrappers spelled differently, the file beside the config."""
    names = ["lm_head", "model.layers.0*", "language_model.model.layers.1.self_attn*", "*.k_proj"]
    document = {"quantization": {"quant_algo": "NVFP4", "group_size": 16, "exclude_modules": names}}
    config = mistral(num_hidden_layers=3)
    groups = structure_of(tmp_path, config, {"hf_quant_config.json": json.dumps(document)}).groups
    assert [group.layers for group in groups] == [(0,), (1,), (2,)]
    plain = [{name for name, word in words(group).items() if word == "bfloat16"} for group in groups]
    assert plain[0] == set(words(groups[0]))
    assert plain[1] == {"q_proj", "k_proj", "v_proj", "o_proj"}
    assert plain[2] == {"k_proj"}


def test_several_groups_with_targets(tmp_path: Path) -> None:
    eight: Json = {"weights": {"num_bits": 8, "type": "float", "strategy": "channel"}, "targets": ["re:.*self_attn.*"]}
    four: Json = {"weights": {"num_bits": 4, "type": "float", "group_size": 16}, "targets": ["re:.*mlp.*", "lm_head"]}
    said: Json = {"quant_method": "compressed-tensors", "config_groups": {"group_0": eight, "group_1": four}}
    found = structure_of(tmp_path, mistral(quantization_config=said))
    assert words(found.groups[0]) == {
        "q_proj": "fp8", "k_proj": "fp8", "v_proj": "fp8", "o_proj": "fp8", "gate_proj": "nvfp4", "up_proj": "nvfp4",
        "down_proj": "nvfp4",
    }  # fmt: skip
    assert found.head_bytes == 128256 * 4096 * 9 // 16 + 8


def test_mixed_precision_layer_by_layer(tmp_path: Path) -> None:
    """Mixtral's experts are stored as w1, w2 and w3; Nemotron-H's mixers share one name."""
    rows: Json = {
        f"model.layers.0.block_sparse_moe.experts.{number}.w1": {"quant_algo": "NVFP4"} for number in range(8)
    }
    rows |= {"model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"}}
    said: Json = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": rows}
    groups = structure_of(tmp_path, MIXTRAL | {"quantization_config": said, "num_hidden_layers": 2}).groups
    first = words(groups[0])
    assert (first["experts.gate_proj"], first["q_proj"], first["experts.up_proj"]) == ("nvfp4", "fp8", "bfloat16")
    assert set(words(groups[1]).values()) == {"bfloat16"}
    rows = {"backbone.layers.0.mixer.in_proj": {"quant_algo": "FP8"}}
    said = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": rows}
    found = structure_of(tmp_path / "hybrid", NEMOTRON_NANO | {"quantization_config": said})
    assert [group.layers for group in found.groups if "fp8" in words(group).values()] == [(0,)]


def test_modelopt_over_an_fp8_checkpoint(tmp_path: Path) -> None:
    """DeepSeek-V4 in NVFP4: what the second tool left alone is still fp8."""
    rows: Json = {
        f"model.layers.{number}.mlp.experts": {"quant_algo": "NVFP4", "group_size": 16} for number in range(61)
    }
    said: Json = {
        "quant_method": "fp8", "weight_block_size": [128, 128], "quant_algo": "MIXED_PRECISION",
        "quantized_layers": rows, "ignore": ["*.self_attn.*", "*.shared_experts.*"],
    }  # fmt: skip
    names = words(structure_of(tmp_path, DEEPSEEK_V3 | {"quantization_config": said}).groups[1])
    assert names["experts.up_proj"] == "nvfp4"
    assert (names["q_b_proj"], names["shared_experts.up_proj"], names["gate"]) == ("fp8", "fp8", "bfloat16")


MATCHES: list[tuple[str, str, bool]] = [
    ("lm_head", "lm_head", True),
    ("model.layers.3.mlp", "layers.3.mlp.gate_proj", True),
    ("model.layers.3.mlp", "layers.30.mlp.gate_proj", False),
    ("gate", "layers.3.mlp.gate", True),
    ("gate", "layers.3.mlp.gate_proj", False),
    ("model.language_model.layers.1.self_attn*", "layers.1.self_attn.q_proj", True),
    ("model.layers.1.*", "layers.1.mlp.up_proj", True),
    ("model.layers.1.*", "layers.10.mlp.up_proj", False),
    ("model.layers.*.self_attn", "layers.7.self_attn.o_proj", True),
    ("re:.*shared_experts.*", "layers.7.mlp.shared_experts.up_proj", True),
    (r"re:model\.layers\.\d+\.mlp\.gate$", "layers.7.mlp.gate", True),
    (r"re:.*mlp\.(gate|up)_proj.*", "layers.7.mlp.down_proj", False),
    ("re:[", "layers.7.mlp.down_proj", False),
]


@pytest.mark.parametrize(("pattern", "module", "expected"), MATCHES)
def test_patterns(pattern: str, module: str, expected: bool) -> None:
    assert Modules((pattern,)).match(module) is expected


@pytest.mark.parametrize("pattern", ["re:(.*)*x", "re:(a|a)*$", "re:.*.*.*.*.*.*x", "re:" + "a" * 400])
def test_expressions_that_could_take_for_ever_are_left_out(pattern: str) -> None:
    assert not Modules((pattern,)).match("layers.7." + "a" * 60)
