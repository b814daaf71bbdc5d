"""Whatever JSON a repository holds, `analyze` gives a profile or one sentence."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from autoadapter.analyze import analyze, resolve_model
from autoadapter.artifacts import ModelProfile
from autoadapter.errors import BrokenCheckpointError, UserError
from tests.unit.analyze.analyze_files import LLAMA, LLAMA_SHAPES, gguf_bytes, safetensors_bytes, write_model

KEYS = [
    *LLAMA, "text_config", "rope_scaling", "rope_parameters", "layer_types", "sliding_window", "block_configs",
    "sliding_window_pattern", "hybrid_override_pattern", "quantization_config", "config_groups", "auto_map",
    "vision_config",
    "moe_layer_freq", "num_experts", "kv_lora_rank", "attn_type_list", "linear_attn_config", "attn_config", "weights",
    "full_attention_interval", "attn_layer_period", "mamba_num_heads", "mamba_head_dim", "num_kv_shared_layers",
    "attention_chunk_size", "no_rope_layers", "rotary_dim", "max_window_layers", "use_sliding_window", "dtype",
    "weight_block_size", "factor", "rope_type", "type", "attention", "n_heads_in_group", "conv_L_cache", "state_size",
]  # fmt: skip
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 300),
    st.floats(),
    st.sampled_from(["llama", "llama4_text", "yarn", "", "x"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=6,
)


def outcome(folder: Path) -> ModelProfile | None:
    """The profile, read back from its own JSON; None for a refusal in words."""
    try:
        profile = analyze(resolve_model(str(folder)), vllm_version="0.32.0", platform="cpu")
    except UserError as error:
        assert str(error).endswith(".") and error.hint
        return None
    return ModelProfile.model_validate_json(profile.to_json())


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6))
def test_any_config(config: dict[str, JsonValue]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        outcome(write_model(Path(folder), config))


TOKENIZER_KEYS = [
    "added_tokens", "model", "vocab", "type", "id", "content", "special", "merges", "chat_template", "eos_token",
    "added_tokens_decoder", "auto_map", "model_max_length", "additional_special_tokens", "special_tokens", "rank",
    "eos_token_id", "producer", "quantization", "quant_algo", "exclude_modules", "default_vocab_size", "config",
]  # fmt: skip
FILES = [
    "tokenizer.json", "tokenizer_config.json", "generation_config.json", "special_tokens_map.json", "tekken.json",
    "hf_quant_config.json", "added_tokens.json", "vocab.json", "chat_template.json",
]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(FILES),
        st.dictionaries(
            st.sampled_from(TOKENIZER_KEYS),
            st.recursive(
                SCALARS,
                lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(TOKENIZER_KEYS), inner),
                max_leaves=6,
            ),
        ),
        max_size=3,
    )
)
def test_any_tokenizer_files(documents: dict[str, dict[str, JsonValue]]) -> None:
    files: dict[str, bytes | str] = {name: json.dumps(document) for name, document in documents.items()}
    with tempfile.TemporaryDirectory() as folder:
        outcome(write_model(Path(folder), None, {"model.safetensors": safetensors_bytes(LLAMA_SHAPES), **files}))


@pytest.mark.parametrize("value", [10**12, 10_001])
def test_layer_count_that_would_fill_the_memory(tmp_path: Path, value: int) -> None:
    with pytest.raises(BrokenCheckpointError, match=f"num_hidden_layers is {value}, more layers than any model has"):
        analyze(
            resolve_model(str(write_model(tmp_path, {"num_hidden_layers": value}))),
            vllm_version="0.32.0",
            platform="cpu",
        )


NOT_NUMBERS = [
    '{"hidden_size": ' + "9" * 5000 + "}",
    '{"hidden_size": ' + "9" * 400 + "}",
    '{"num_hidden_layers": Infinity}',
    '{"vocab_size": NaN}',
]


@pytest.mark.parametrize("text", NOT_NUMBERS)
def test_numbers_that_are_none(tmp_path: Path, text: str) -> None:
    folder = write_model(tmp_path)
    (folder / "config.json").write_text(text)
    assert outcome(folder) is None


def test_gguf_without_metadata(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(gguf_bytes([], {"w": ((32,), 0, 128)}))
    profile = outcome(tmp_path)
    assert profile is not None and profile.verdict.outcome == "will_not_start"


def test_towers_of_other_senses_do_not_colour_the_language_model(tmp_path: Path) -> None:
    tower = {
        "vision_tower.encoder.layers.0.self_attn.k_proj.weight": (7, 8),
        "vision_tower.encoder.layers.0.self_attn.q_proj.bias": (8,),
        "visual.blocks.0.attn.q_norm.weight": (4,),
    }
    files: dict[str, bytes | str] = {"model.safetensors": safetensors_bytes(tower | LLAMA_SHAPES)}
    profile = outcome(write_model(tmp_path, None, files))
    assert profile is not None
    assert not profile.attention.bias and not profile.attention.qk_norm
    assert "attention.shape-conflict" not in {finding.code for finding in profile.findings}


def test_part_of_a_split_gguf_stands_for_all(tmp_path: Path) -> None:
    first = gguf_bytes([("general.architecture", 8, "llama")], {"token_embd.weight": ((32, 4), 0, 512)})
    second = gguf_bytes([("split.no", 4, 1)], {"blk.0.attn_k.weight": ((32, 8), 0, 1024)})
    (tmp_path / "m-00001-of-00002.gguf").write_bytes(first)
    (tmp_path / "m-00002-of-00002.gguf").write_bytes(second)
    (tmp_path / "mmproj-m.gguf").write_bytes(b"another model")
    profile = analyze(resolve_model(str(tmp_path / "m-00002-of-00002.gguf")), vllm_version="0.32.0", platform="cpu")
    assert profile.tensors.parameters == 32 * 4 + 32 * 8 and profile.architecture == "LlamaForCausalLM"
