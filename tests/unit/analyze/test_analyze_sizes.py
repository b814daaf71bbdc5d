"""Sizes that cannot be, and configs that the tensors contradict."""

from pathlib import Path

import pytest
from pydantic import JsonValue

from autoadapter.analyze import analyze, resolve_model
from autoadapter.artifacts import Level, ModelProfile
from autoadapter.errors import BrokenCheckpointError
from tests.unit.analyze.analyze_files import LLAMA_SHAPES, safetensors_bytes, write_model

Shapes = dict[str, tuple[int, ...]]
LLAMA: Shapes = {name: tuple(shape) for name, shape in LLAMA_SHAPES.items()}


def profile(folder: Path, config: dict[str, JsonValue], shapes: Shapes | None = None) -> ModelProfile:
    weights: dict[str, bytes | str] = {"model.safetensors": safetensors_bytes(shapes or LLAMA)}
    write_model(folder, config, weights if shapes != {} else {})
    return analyze(resolve_model(str(folder)), vllm_version="0.32.0", platform="cuda")


def conflicts(found: ModelProfile) -> dict[str, str]:
    codes = ("weights.layers", "attention.query-conflict", "mlp.shape-conflict", "moe.")
    return {
        one.code: one.message for one in found.findings if one.code.startswith(codes) and one.level is Level.BLOCKER
    }


IMPOSSIBLE: list[tuple[str, JsonValue]] = [
    ("num_hidden_layers", 0),
    ("hidden_size", 0),
    ("hidden_size", 2**40),
    ("num_attention_heads", 0),
    ("num_attention_heads", 2**62),
    ("num_key_value_heads", 0),
    ("num_key_value_heads", [2, -4]),
    ("head_dim", 2**20),
    ("vocab_size", 0),
    ("vocab_size", -1),
    ("vocab_size", 2**62),
    ("intermediate_size", 2**62),
    ("max_position_embeddings", 2**62),
    ("num_experts", 2**62),
    ("rope_theta", 0),
    ("rope_theta", -1.0),
    ("layer_types", ["full_attention"] * 10_001),
]


@pytest.mark.parametrize(("key", "value"), IMPOSSIBLE, ids=[f"{key}={str(value)[:20]}" for key, value in IMPOSSIBLE])
def test_impossible_size(tmp_path: Path, key: str, value: JsonValue) -> None:
    config: dict[str, JsonValue] = {key: value}
    config |= {"num_hidden_layers": None} if key == "layer_types" else {}
    with pytest.raises(BrokenCheckpointError, match=rf"config.json: (config.json:)?{key} is ") as caught:
        profile(tmp_path / "m", config)
    assert caught.value.hint


@pytest.mark.parametrize("factor", [0, -2, 1e-9, 1e300, float("inf"), float("nan")])
def test_impossible_rope_factor(tmp_path: Path, factor: float) -> None:
    with pytest.raises(BrokenCheckpointError, match=r"factor|scaling by|inf"):
        profile(tmp_path / "m", {"rope_scaling": {"rope_type": "linear", "factor": factor}})


def test_mamba_may_state_no_heads(tmp_path: Path) -> None:
    config: dict[str, JsonValue] = {"model_type": "mamba", "num_attention_heads": 0, "num_key_value_heads": 0}
    found = profile(tmp_path / "m", config | {"state_size": 16, "head_dim": None}, {})
    assert found.attention.kind == "linear" and found.attention.num_layers == 1


def layers(count: int, *more: str) -> Shapes:
    names = [f"model.layers.{layer}.input_layernorm.weight" for layer in range(count)]
    return LLAMA | dict.fromkeys((*names, *more), (8,))


LAYERS: list[tuple[str, dict[str, JsonValue], Shapes, str | None]] = [
    ("as stated", {"num_hidden_layers": 3}, layers(3), None),
    ("fewer", {"num_hidden_layers": 4}, layers(3), "is 4, and the weights have nothing of layer 3"),
    ("more", {"num_hidden_layers": 2}, layers(3), "is 2, and the weights have layers up to number 2"),
    ("a stated predictor", {"num_hidden_layers": 2, "num_nextn_predict_layers": 1}, layers(3), None),
    ("a predictor by its names", {"num_hidden_layers": 3}, layers(3, "model.layers.3.eh_proj.weight"), None),
    ("a counted predictor", {"num_hidden_layers": 4}, layers(3, "model.layers.3.eh_proj.weight"), None),
    ("another tower", {"num_hidden_layers": 3}, layers(3, "vision_tower.encoder.layers.9.x.weight"), None),
    ("two stacks", {"num_hidden_layers": 3}, layers(3, "decoder.layers.9.x.weight"), None),
    ("layers without anything left", {"num_hidden_layers": 4, "block_configs": [{}] * 4}, layers(3), None),
    ("no names that say it", {"num_hidden_layers": 4}, {"transformer.weird.0.weight": (8,)}, None),
]


@pytest.mark.parametrize(("_", "config", "shapes", "sentence"), LAYERS, ids=[row[0] for row in LAYERS])
def test_layers(tmp_path: Path, _: str, config: dict[str, JsonValue], shapes: Shapes, sentence: str | None) -> None:
    told = conflicts(profile(tmp_path / "m", config, shapes)).get("weights.layers")
    assert (told is None) == (sentence is None) and (sentence or "") in (told or "")


QUERY = "model.layers.0.self_attn.q_proj.weight"
LFM2: dict[str, JsonValue] = {"model_type": "lfm2", "intermediate_size": 900}
GATE = "model.layers.0.mlp.gate_proj.weight"
WIDTHS: list[tuple[str, dict[str, JsonValue], Shapes, str | None]] = [
    ("q fits", {}, {QUERY: (256, 8)}, None),
    ("q with a gate", {}, {QUERY: (512, 8)}, None),
    ("q differs", {}, {QUERY: (320, 8)}, "q_proj.weight has 320 rows, and the config says 4 heads of 64"),
    ("q of MLA", {"kv_lora_rank": 16, "qk_rope_head_dim": 8}, {QUERY: (320, 8)}, None),
    ("q of its own kind by layer", {"swa_head_dim": 32}, {QUERY: (320, 8)}, None),
    ("gate differs", {}, {GATE: (24, 8)}, "24 rows, and config.json:intermediate_size makes it 16"),
    ("gate by layer", {"intermediate_size": [24, 16]}, {GATE: (24, 8)}, None),
    ("lfm2 adjusts", LFM2, {"model.layers.0.feed_forward.w1.weight": (768, 8)}, None),
    (
        "lfm2 does not fit",
        LFM2 | {"block_auto_adjust_ff_dim": False},
        {"model.layers.0.feed_forward.w1.weight": (768, 8)},
        "w1.weight has 768 rows, and config.json:intermediate_size makes it 900",
    ),
]


@pytest.mark.parametrize(("_", "config", "shapes", "sentence"), WIDTHS, ids=[row[0] for row in WIDTHS])
def test_widths(tmp_path: Path, _: str, config: dict[str, JsonValue], shapes: Shapes, sentence: str | None) -> None:
    rest = {name: shape for name, shape in LLAMA.items() if name != GATE}
    told = conflicts(profile(tmp_path / "m", config, rest | shapes))
    assert (not told) == (sentence is None) and (sentence or "") in " ".join(told.values())


def test_packed_query_is_left_alone(tmp_path: Path) -> None:
    data = safetensors_bytes({QUERY: (64, 1)}, "U8", 1)
    folder = write_model(
        tmp_path / "m", {"quantization_config": {"quant_method": "bitsandbytes"}}, {"a.safetensors": data}
    )
    found = analyze(resolve_model(str(folder)), vllm_version="0.32.0", platform="cuda")
    assert "attention.query-conflict" not in conflicts(found)


def experts(count: int) -> Shapes:
    return LLAMA | {f"model.layers.0.mlp.experts.{number}.up_proj.weight": (16, 8) for number in range(count)}


MIXED: list[tuple[str, dict[str, JsonValue], Shapes, str | None]] = [
    ("as stated", {"num_experts": 4}, experts(4), None),
    ("a zero hides nothing", {"num_experts": 0, "num_local_experts": 4}, experts(4), None),
    ("fewer", {"num_experts": 8}, experts(4), "num_experts is 8, and the weights have 4 experts"),
    ("none", {"num_local_experts": 8}, LLAMA, "num_local_experts is 8, and no tensor belongs to an expert"),
    ("unexplained", {}, experts(4), "experts.0.up_proj.weight is stored, and config.json says nothing of experts"),
    ("a key that is not known", {"num_fancy_experts": 4}, experts(4), None),
    (
        "shared ones do not count",
        {"num_experts": 4},
        experts(4) | {"model.layers.0.mlp.shared_experts.7.w": (8,)},
        None,
    ),
]


@pytest.mark.parametrize(("_", "config", "shapes", "sentence"), MIXED, ids=[row[0] for row in MIXED])
def test_experts(tmp_path: Path, _: str, config: dict[str, JsonValue], shapes: Shapes, sentence: str | None) -> None:
    told = conflicts(profile(tmp_path / "m", config, shapes))
    assert (not told) == (sentence is None) and (sentence or "") in " ".join(told.values())


def test_a_zero_does_not_hide_the_experts(tmp_path: Path) -> None:
    found = profile(tmp_path / "m", {"num_experts": 0, "num_local_experts": 8, "num_experts_per_tok": 2}, {})
    assert found.moe is not None and found.moe.num_experts == 8
    assert found.sources["moe.num_experts"] == "config.json:num_local_experts"


@pytest.mark.parametrize(
    ("config", "scoring", "source"),
    [
        ({"model_type": "glm4_moe"}, "sigmoid", "glm4_moe routes by sigmoid"),
        ({"model_type": "deepseek_v3"}, "sigmoid", "deepseek_v3 routes by sigmoid"),
        ({"model_type": "nemotron_h"}, "sigmoid", "nemotron_h routes by sigmoid"),
        ({"model_type": "deepseek_v3", "scoring_func": "softmax"}, "softmax", "config.json:scoring_func"),
        ({"model_type": "qwen3_moe"}, "softmax", "the default of most families"),
    ],
)
def test_scoring_and_who_says_so(tmp_path: Path, config: dict[str, JsonValue], scoring: str, source: str) -> None:
    found = profile(tmp_path / "m", config | {"num_experts": 8, "num_experts_per_tok": 2}, {})
    assert found.moe is not None and found.moe.scoring == scoring
    assert source in found.sources["moe.scoring"]


@pytest.mark.parametrize(
    ("config", "width"),
    [
        ({"block_ff_dim": 6656, "block_ffn_dim_multiplier": 1.0, "block_multiple_of": 256}, 4608),
        ({"block_ff_dim": 4608, "block_auto_adjust_ff_dim": False}, 4608),
        ({"intermediate_size": 10752, "block_ffn_dim_multiplier": 1.5}, 10752),
    ],
)
def test_lfm2(tmp_path: Path, config: dict[str, JsonValue], width: int) -> None:
    base: dict[str, JsonValue] = {"model_type": "lfm2", "tie_word_embeddings": None, "intermediate_size": None}
    found = profile(tmp_path / "m", base | config, {})
    assert found.embedding.tied and found.mlp is not None and found.mlp.intermediate_size == width
    assert not profile(tmp_path / "n", base | config | {"tie_embedding": False}, {}).embedding.tied


def test_compressed_cache_is_an_upper_bound(tmp_path: Path) -> None:
    found = profile(tmp_path / "m", {"compress_ratios": [0, 4, 128]})
    told = next(one for one in found.findings if one.code == "attention.compressed")
    assert told.level is Level.WARNING and told.source == "config.json:compress_ratios"


@pytest.mark.parametrize(
    ("name", "gated", "bias"),
    [
        ("model.layers.0.block_sparse_moe.experts.3.w1.weight", True, False),
        ("model.decoder.layers.0.mlp.fc1.bias", False, True),
    ],
)
def test_digits_that_belong_to_a_name(tmp_path: Path, name: str, gated: bool, bias: bool) -> None:
    found = profile(tmp_path / "m", {}, {"model.embed_tokens.weight": (10, 8), name: (16,)})
    assert found.mlp is not None and (found.mlp.gated, found.mlp.bias) == (gated, bias)
