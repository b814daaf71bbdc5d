"""What a config leaves to its class: small configs of the kinds that are published, and what vLLM makes of them."""

import json
from pathlib import Path

import pytest
from pydantic import JsonValue

from autoadapter.analyze import analyze
from autoadapter.analyze.class_defaults import class_defaults
from autoadapter.analyze.config import Config, language_config
from autoadapter.analyze.resolve import resolve_model
from autoadapter.artifacts import Level, ModelProfile

Json = dict[str, JsonValue]
GEMMA3: Json = {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34}
PIXTRAL: Json = {
    "model_type": "mistral", "hidden_size": 5120, "head_dim": 128, "num_hidden_layers": 40, "num_key_value_heads": 8,
    "sliding_window": None,
}  # fmt: skip


def profile(folder: Path, config: Json) -> ModelProfile:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    return analyze(resolve_model(str(folder)), vllm_version="0.32.0", platform="cuda")


def language(config: Json) -> Config:
    return language_config(Config(config, "config.json", "config.json"))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"model_type": "gemma3", "text_config": GEMMA3}, (34, 8, 4, 256, 262208, 131072)),
        (
            {"model_type": "llava", "text_config": {"model_type": "llama", "vocab_size": 32064}},
            (32, 32, 32, 128, 32064, 2048),
        ),
        (
            {"model_type": "qwen2_audio", "text_config": {"model_type": "qwen2", "vocab_size": 156032}},
            (32, 32, 32, 128, 156032, 32768),
        ),
        ({"model_type": "llava", "text_config": PIXTRAL}, (40, 32, 8, 128, 32000, 131072)),
        (
            {
                "model_type": "paligemma",
                "text_config": {
                    "model_type": "gemma",
                    "hidden_size": 2048,
                    "num_hidden_layers": 18,
                    "num_attention_heads": 8,
                    "num_key_value_heads": 1,
                },
            },
            (18, 8, 1, 256, 256000, 8192),
        ),
        (
            {"model_type": "voxtral", "text_config": {"model_type": "llama", "hidden_size": 3072}},
            (30, 32, 8, 128, 131072, 131072),
        ),
        ({"model_type": "gemma3"}, (26, 8, 4, 256, 262208, 131072)),
        ({"model_type": "gpt2", "n_embd": 1024, "n_head": 16}, (12, 16, 16, 64, 50257, 1024)),
        ({"model_type": "gpt2", "hidden_size": 1024, "num_attention_heads": 16}, (12, 16, 16, 64, 50257, 1024)),
        (
            {"model_type": "qwen3", "hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 8},
            (32, 16, 8, 128, 151936, 32768),
        ),
        ({"model_type": "gemma2", "hidden_size": 2048}, (26, 8, 4, 256, 256000, 8192)),
        ({"model_type": "llama", "num_attention_heads": 64}, (32, 64, 64, 64, 32000, 2048)),
        ({"model_type": "mistral", "num_key_value_heads": None}, (32, 32, 32, 128, 32000, 131072)),
        ({"model_type": "zamba2"}, (54, 32, 32, 160, 32000, 4096)),
        ({"model_type": "qwen3", "head_dim": 0}, (32, 32, 32, 128, 151936, 32768)),
        ({"model_type": "qwen3", "head_dim": 0, "hidden_size": 2048}, (32, 32, 32, 64, 151936, 32768)),
    ],
)
def test_sizes(tmp_path: Path, config: Json, expected: tuple[int, ...]) -> None:
    found = profile(tmp_path / "m", config)
    heads = found.attention
    assert (
        heads.num_layers, heads.num_attention_heads, heads.num_key_value_heads, heads.head_dim,
        found.embedding.vocab_size, found.max_model_len,
    ) == expected  # fmt: skip


@pytest.mark.parametrize(
    ("config", "sliding", "window"),
    [
        ({"model_type": "mistral"}, 32, 4096),
        ({"model_type": "gpt_oss", "num_hidden_layers": 24}, 12, 128),
        ({"model_type": "gemma3_text"}, 22, 4096),
        ({"model_type": "gemma3_text", "sliding_window": None}, 0, None),
        ({"model_type": "gemma3_text", "sliding_window_pattern": 2}, 13, 4096),
        ({"model_type": "gemma4_text", "num_hidden_layers": 10}, 8, 512),
        ({"model_type": "llama4_text", "num_hidden_layers": 48}, 36, 8192),
        ({"model_type": "qwen2", "sliding_window": 1024}, 0, None),
        ({"model_type": "qwen2", "sliding_window": 1024, "use_sliding_window": True}, 4, 1024),
        ({"model_type": "qwen3", "use_sliding_window": True, "num_hidden_layers": 40}, 12, 4096),
        ({"model_type": "inkling_model", "num_hidden_layers": 4, "local_layer_ids": [0, 1, 2]}, 3, 512),
        (
            {"model_type": "inkling_text", "layer_types": ["hybrid_sliding", "hybrid"] * 2, "num_hidden_layers": 4},
            2,
            512,
        ),
    ],
)
def test_windows(tmp_path: Path, config: Json, sliding: int, window: int | None) -> None:
    found = profile(tmp_path / "m", config).attention
    assert (found.num_sliding_layers, found.sliding_window) == (sliding, window)


@pytest.mark.parametrize(
    ("config", "recurrent"),
    [
        ({"model_type": "qwen3_next"}, 36),
        ({"model_type": "jamba"}, 28),
        ({"model_type": "jamba", "attn_layer_period": 16}, 30),
        ({"model_type": "bamba", "attn_layer_indices": [9, 18]}, 30),
    ],
)
def test_recurrent_layers(tmp_path: Path, config: Json, recurrent: int) -> None:
    state = profile(tmp_path / "m", config).state
    assert state is not None and state.num_layers == recurrent and state.bytes_per_request


@pytest.mark.parametrize("width", [{}, {"mamba_d_head": "auto"}, {"mamba_d_head": 64}])
def test_heads_of_mamba_whose_width_is_left_open(tmp_path: Path, width: Json) -> None:
    bamba: Json = {"model_type": "bamba", "mamba_n_heads": 128, "mamba_expand": 2, "hidden_size": 4096}
    state = profile(tmp_path / "m", bamba | {"attn_layer_indices": [9]} | width).state
    assert state is not None and state.kind == "mamba2"
    assert state.bytes_per_request == 31 * 2 * (3 * (8192 + 2 * 256) + 8192 * 256)


def test_experts(tmp_path: Path) -> None:
    mixtral = profile(tmp_path / "a", {"model_type": "mixtral", "num_hidden_layers": 2}).moe
    assert mixtral is not None and (mixtral.num_experts, mixtral.num_experts_per_tok) == (8, 2)
    other = profile(tmp_path / "b", {"model_type": "mixtral", "num_experts": 4}).moe
    assert other is not None and other.num_experts == 4


def test_a_default_does_not_turn_a_model_into_another(tmp_path: Path) -> None:
    dense: Json = {"model_type": "nemotron_h", "hybrid_override_pattern": "M-M*-M-", "num_hidden_layers": 7}
    assert profile(tmp_path / "a", dense).moe is None
    assert profile(tmp_path / "b", {"model_type": "qwen3_moe", "num_experts": 0}).moe is None
    assert profile(tmp_path / "c", {"model_type": "llama"}).attention.kv_lora_rank is None


def test_fields_that_a_class_keeps_apart(tmp_path: Path) -> None:
    found = profile(tmp_path / "m", {"model_type": "qwen3_moe", "intermediate_size": 6144})
    assert found.moe is not None and found.moe.moe_intermediate_size == 768
    assert found.mlp is not None and found.mlp.intermediate_size == 6144


@pytest.mark.parametrize(("model_type", "head_dim", "kind"), [("deepseek_v3", 576, "mla"), ("youtu", 192, "mha")])
def test_latents_that_vllm_caches(tmp_path: Path, model_type: str, head_dim: int, kind: str) -> None:
    found = profile(tmp_path / "m", {"model_type": model_type}).attention
    assert (found.head_dim, found.kind, found.kv_lora_rank) == (head_dim, kind, 512)


@pytest.mark.parametrize(("flag", "heads"), [(True, 2), (False, 32)])
def test_chatglm(tmp_path: Path, flag: bool, heads: int) -> None:
    config: Json = {"model_type": "chatglm", "multi_query_attention": flag, "multi_query_group_num": 2}
    assert profile(tmp_path / "m", config).attention.num_key_value_heads == heads


@pytest.mark.parametrize("key", ["lm_config", "text_model", "decoder", "llm", "transf_decoder"])
def test_nested_language_models(tmp_path: Path, key: str) -> None:
    inner: Json = {"num_hidden_layers": 3, "num_attention_heads": 4, "hidden_size": 64, "vocab_size": 9}
    whole: Json = {"model_type": "whole", key: {"config_dict": inner} if key == "transf_decoder" else inner}
    assert profile(tmp_path / "m", whole).attention.num_layers == 3


@pytest.mark.parametrize(("model_type", "tied"), [("gemma2", True), ("llama", False), ("lfm2", True)])
def test_tie(tmp_path: Path, model_type: str, tied: bool) -> None:
    assert profile(tmp_path / "m", {"model_type": model_type}).embedding.tied is tied


def test_where_a_default_was_read(tmp_path: Path) -> None:
    found = profile(tmp_path / "m", {"model_type": "gemma3", "text_config": GEMMA3})
    default = "default of transformers' Gemma3TextConfig (5.19)"
    assert found.sources["attention.num_attention_heads"] == default
    assert found.sources["attention.layer_types"] == default
    assert found.sources["attention.num_layers"] == "config.json:text_config.num_hidden_layers"


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"model_type": "mystery"}, ("layers", "hidden size", "vocabulary", "attention heads")),
        (
            {"model_type": "mystery", "num_hidden_layers": 2, "hidden_size": 8, "vocab_size": 9},
            ("attention heads", "width"),
        ),
    ],
)
def test_unknown_sizes_are_no_zeros(tmp_path: Path, config: Json, words: tuple[str, ...]) -> None:
    found = profile(tmp_path / "m", config | {"architectures": ["LlamaForCausalLM"]})
    finding = next(finding for finding in found.findings if finding.code == "structure.unknown")
    assert finding.level is Level.WARNING and all(word in finding.message for word in words)
    assert found.structure.groups == ()


def test_known_sizes_raise_no_question(tmp_path: Path) -> None:
    found = profile(tmp_path / "m", {"model_type": "llama"})
    assert "structure.unknown" not in {finding.code for finding in found.findings}
    assert found.structure.groups


def test_null_is_a_statement() -> None:
    config = language({"model_type": "qwen3", "head_dim": None})
    assert config.integer("head_dim") is None
    assert language({"model_type": "qwen3"}).integer("head_dim") == 128
    assert language({"model_type": "qwen3"}).stated.integer("head_dim") is None


def test_unregistered_types_have_no_defaults() -> None:
    assert class_defaults("mystery") is None
    assert class_defaults("", ("mystery",)) is None


def test_the_rotary_base_of_the_class(tmp_path: Path) -> None:
    silent = profile(tmp_path, {"architectures": ["Gemma3ForCausalLM"], **GEMMA3}).rope
    stated = profile(tmp_path, {"architectures": ["Gemma3ForCausalLM"], **GEMMA3, "rope_theta": 5e5}).rope
    assert silent is not None and silent.theta == 1_000_000.0
    assert stated is not None and stated.theta == 5e5
