"""Configs that contradict themselves or the tensors, in every layer; both sides are named."""

from pathlib import Path
from typing import Any

import pytest

from autoadapter.analyze import analyze, resolve_model
from autoadapter.artifacts import Finding, Level, ModelProfile
from tests.unit.analyze.analyze_files import Shapes, safetensors_bytes, write_model

CONFIG: dict[str, Any] = {"num_hidden_layers": 3, "hidden_size": 64, "head_dim": 16, "intermediate_size": 32}


def tensors(**changed: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """A Llama of three layers; `changed` replaces shapes, dots written as two underscores."""
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (10, 64), "lm_head.weight": (10, 64)}
    for layer in range(3):
        prefix = f"model.layers.{layer}."
        shapes |= {
            f"{prefix}self_attn.{name}_proj.weight": (rows, 64) for name, rows in (("q", 64), ("k", 32), ("v", 32))
        }
        shapes[f"{prefix}self_attn.o_proj.weight"] = (64, 64)
        shapes |= {f"{prefix}mlp.{name}_proj.weight": (32, 64) for name in ("gate", "up")}
        shapes[f"{prefix}mlp.down_proj.weight"] = (64, 32)
    return shapes | {name.replace("__", "."): shape for name, shape in changed.items()}


def profile(folder: Path, config: dict[str, Any], shapes: Shapes | None = None, **dtype: Any) -> ModelProfile:
    files: dict[str, bytes | str] = {} if shapes is None else {"model.safetensors": safetensors_bytes(shapes, **dtype)}
    model = write_model(folder, {**CONFIG, **config}, files)
    return analyze(resolve_model(str(model)), vllm_version="0.32.0", platform="cuda")


def told(found: ModelProfile, code: str) -> list[Finding]:
    return [finding for finding in found.findings if finding.code == code]


QUIET = {"tokenizer.none", "tokenizer.no-template", "weights.none"}


def test_a_sound_model_has_nothing_to_tell(tmp_path: Path) -> None:
    found = profile(tmp_path / "m", {}, tensors())
    assert {finding.code for finding in found.findings} <= QUIET


QUERY, KEY, VALUE, OUTPUT = (f"self_attn__{name}_proj__weight" for name in "qkvo")
SHAPES = [
    (
        KEY,
        (16, 64),
        "attention.shape-conflict",
        "2.self_attn.k_proj.weight has 16 rows, and the config says 2 KV heads",
    ),
    (VALUE, (64, 64), "attention.shape-conflict", "and the config says 2 KV heads of 16"),
    (OUTPUT, (64, 32), "attention.shape-conflict", "2.self_attn.o_proj.weight has 32 columns"),
    (QUERY, (48, 64), "attention.query-conflict", "48 rows, and the config says 4 heads of 16"),
    ("mlp__up_proj__weight", (40, 64), "mlp.shape-conflict", "40 rows, and config.json:intermediate_size makes it 32"),
    ("mlp__down_proj__weight", (64, 40), "mlp.shape-conflict", "down_proj.weight has 40 columns"),
    (
        "mlp__gate_proj__weight",
        (32, 72),
        "weights.width-conflict",
        "72 columns, and config.json:hidden_size makes it 64",
    ),
    ("self_attn__qkv_proj__weight", (130, 64), "attention.shape-conflict", "4 heads of 16 and 2 KV heads of 16"),
    ("mlp__gate_up_proj__weight", (60, 64), "mlp.shape-conflict", "makes it 32, twice for both"),
]
ENDS = [("lm_head", (8, 64), "lm_head.weight has 8 rows"), ("model__embed_tokens", (16, 64), "weight has 16 rows")]


@pytest.mark.parametrize(("name", "shape", "sentence"), ENDS)
def test_rows_of_both_ends(tmp_path: Path, name: str, shape: tuple[int, ...], sentence: str) -> None:
    changed = {f"{name}__weight": shape}
    (finding,) = told(profile(tmp_path / "m", {}, tensors(**changed)), "embedding.rows-differ")
    assert sentence in finding.message and "config.json:vocab_size is 10" in finding.message


@pytest.mark.parametrize(("name", "shape", "code", "sentence"), SHAPES, ids=[row[0] for row in SHAPES])
def test_shape_of_the_last_layer(tmp_path: Path, name: str, shape: tuple[int, ...], code: str, sentence: str) -> None:
    changed = {f"model__layers__2__{name}": shape}
    (finding,) = told(profile(tmp_path / "m", {}, tensors(**changed)), code)
    assert sentence in finding.message


def test_one_sentence_for_many(tmp_path: Path) -> None:
    changed = {f"model__layers__{layer}__self_attn__k_proj__weight": (16, 64) for layer in range(3)}
    (finding,) = told(profile(tmp_path / "m", {}, tensors(**changed)), "attention.shape-conflict")
    assert "layers.0.self_attn.k_proj.weight has 16 rows (and 2 more like it)" in finding.message


def test_layers_that_do_not_attend_are_left_alone(tmp_path: Path) -> None:
    config = {"layer_types": ["full_attention", "full_attention", "linear_attention"]}
    found = profile(tmp_path / "m", config, tensors(model__layers__2__self_attn__q_proj__weight=(128, 64)))
    assert told(found, "attention.query-conflict") == []


def test_mllama_keeps_more_rows_than_its_vocabulary(tmp_path: Path) -> None:
    config = {"model_type": "mllama", "architectures": ["MllamaForCausalLM"]}
    shapes = tensors(model__embed_tokens__weight=(18, 64))
    assert told(profile(tmp_path / "m", config, shapes), "embedding.rows-differ") == []


def test_fused_projections_are_named(tmp_path: Path) -> None:
    shapes = {"model.layers.0.self_attn.qkv_proj.weight": (128, 64), "model.layers.0.mlp.gate_up_proj.weight": (64, 64)}
    (finding,) = told(profile(tmp_path / "m", {"num_hidden_layers": 1}, shapes), "weights.fused")
    assert "qkv_proj, gate_up_proj" in finding.message and finding.level is Level.INFO


ALIASES = [
    (
        {"num_key_value_heads": 2, "num_kv_heads": 1},
        "num_kv_heads is 1 and num_key_value_heads is 2; vLLM divides them by num_kv_heads.",
    ),
    ({"hidden_size": 64, "n_embd": 32}, "hidden_size is 64 and n_embd is 32; vLLM takes hidden_size."),
    (
        {"num_experts": 8, "num_local_experts": 4},
        "num_experts is 8 and num_local_experts is 4; vLLM takes num_experts.",
    ),
    (
        {"dtype": "float16", "torch_dtype": "bfloat16"},
        "dtype is float16 and torch_dtype is bfloat16; vLLM takes dtype.",
    ),
]


@pytest.mark.parametrize(("config", "sentence"), ALIASES)
def test_two_names_of_one_thing(tmp_path: Path, config: dict[str, Any], sentence: str) -> None:
    assert [finding.message for finding in told(profile(tmp_path / "m", config), "config.aliases")] == [sentence]


def test_names_that_agree(tmp_path: Path) -> None:
    config = {"n_embd": 64, "dtype": "torch.bfloat16", "num_kv_heads": 2}
    assert told(profile(tmp_path / "m", config), "config.aliases") == []


def test_two_rope_objects(tmp_path: Path) -> None:
    both = {
        "rope_scaling": {"rope_type": "linear", "factor": 2.0},
        "rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0},
    }
    found = profile(tmp_path / "m", both)
    (finding,) = told(found, "rope.two-objects")
    assert (
        finding.message
        == "rope_scaling says rope_type linear and rope_parameters yarn; transformers 5 takes rope_scaling."
    )
    assert found.rope is not None and (found.rope.kind, found.rope.factor) == ("linear", 2.0)


def test_wrapper_that_repeats_a_size_wrongly(tmp_path: Path) -> None:
    config = {
        "text_config": {**CONFIG, "num_attention_heads": 4, "vocab_size": 10},
        "vocab_size": 99,
        "vision_config": {},
    }
    found = profile(tmp_path / "m", config)
    (finding,) = told(found, "config.wrapper-differs")
    assert "vocab_size is 99 and 10 in config.json and config.json:text_config" in finding.message
    assert found.embedding.vocab_size == 10


DTYPES = [
    ("bfloat16", "BF16", 2, None),
    ("float16", "BF16", 2, Level.WARNING),
    ("bfloat16", "F32", 4, Level.INFO),
    ("float32", "BF16", 2, Level.INFO),
]


@pytest.mark.parametrize(("stated", "dtype", "size", "level"), DTYPES)
def test_dtype_of_config_and_tensors(tmp_path: Path, stated: str, dtype: str, size: int, level: Level | None) -> None:
    found = told(profile(tmp_path / "m", {"torch_dtype": stated}, tensors(), dtype=dtype, size=size), "weights.dtype")
    assert [finding.level for finding in found] == ([] if level is None else [level])
    assert all(f"config.json:torch_dtype is {stated}" in finding.message for finding in found)


COMPOSITE = {"architectures": ["Qwen3_5MoeForConditionalGeneration"], "model_type": "qwen3_5_moe"}


def test_text_only_quant_of_a_vision_family(tmp_path: Path) -> None:
    (finding,) = told(profile(tmp_path / "m", COMPOSITE, tensors()), "model.text-only")
    assert "config.json has no config of an encoder" in finding.message
    assert finding.hint is not None and "--language-model-only" in finding.hint


def test_vision_tensors_without_their_config(tmp_path: Path) -> None:
    shapes = tensors() | {"visual.blocks.0.attn.qkv.weight": (8, 8)}
    (finding,) = told(profile(tmp_path / "m", COMPOSITE, shapes), "model.no-encoder-config")
    assert finding.level is Level.BLOCKER


def test_whole_composite(tmp_path: Path) -> None:
    shapes = tensors() | {"visual.blocks.0.attn.qkv.weight": (8, 8)}
    found = profile(tmp_path / "m", {**COMPOSITE, "vision_config": {"hidden_size": 8}}, shapes)
    assert not told(found, "model.no-encoder-config") and not told(found, "model.text-only")


@pytest.mark.parametrize("with_tensors", [True, False])
def test_fused_projections_from_tensors_and_from_the_family(tmp_path: Path, with_tensors: bool) -> None:
    shapes = {name: (128, 64) for name in ("self_attn.qkv_proj", "mlp.gate_up_proj")}
    stored = {f"model.layers.0.{name}.weight": shape for name, shape in shapes.items()} if with_tensors else None
    (finding,) = told(profile(tmp_path / "m", {"model_type": "phi3"}, stored), "weights.fused")
    assert "qkv_proj, gate_up_proj" in finding.message
    assert "as LoRA targets" in (finding.hint or "")
    assert not told(profile(tmp_path / "other", {}, None), "weights.fused")
