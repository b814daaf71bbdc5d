"""Axes: hand-written configs of real shapes → what the engine derives from them."""

import json
from pathlib import Path

import pytest
from pydantic import JsonValue

from autoadapter.analyze import analyze, resolve_model
from autoadapter.artifacts import ModelProfile
from autoadapter.errors import BrokenCheckpointError
from tests.unit.analyze.analyze_files import write_model


@pytest.fixture
def profile(tmp_path: Path) -> "Reader":
    return Reader(tmp_path / "model")


class Reader:
    """Profiles of configs alone: no weights, so that the config has to say everything."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, **config: JsonValue) -> ModelProfile:
        self.folder.mkdir(exist_ok=True)
        (self.folder / "config.json").write_text(json.dumps(config))
        return analyze(resolve_model(str(self.folder)), vllm_version="0.32.0", platform="cuda")


def codes(found: ModelProfile) -> set[str]:
    return {finding.code for finding in found.findings}


LLAMA_8B: dict[str, JsonValue] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "rope_theta": 500000.0,
    "hidden_act": "silu",
}

HEADS: list[tuple[str, dict[str, JsonValue], tuple[str, int, int, int, int]]] = [
    ("llama-3.1-8b", LLAMA_8B, ("gqa", 32, 32, 8, 128)),
    (
        "falcon-7b: multi_query is one KV head",
        {"model_type": "falcon", "hidden_size": 4544, "n_layer": 32, "n_head": 71, "multi_query": True},
        ("mqa", 32, 71, 1, 64),
    ),
    (
        "falcon-40b: new_decoder_architecture beats multi_query",
        {
            "model_type": "falcon",
            "hidden_size": 8192,
            "n_layer": 60,
            "n_head": 128,
            "n_head_kv": 8,
            "multi_query": True,
            "new_decoder_architecture": True,
        },
        ("gqa", 60, 128, 8, 64),
    ),
    (
        "dbrx: attn_config",
        {"model_type": "dbrx", "d_model": 6144, "n_layers": 40, "n_heads": 48, "attn_config": {"kv_n_heads": 8}},
        ("gqa", 40, 48, 8, 128),
    ),
    ("mpt-7b", {"model_type": "mpt", "d_model": 4096, "n_layers": 32, "n_heads": 32}, ("mha", 32, 32, 32, 128)),
    ("gpt2", {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12}, ("mha", 12, 12, 12, 64)),
    (
        "qwen3-30b-a3b: explicit head_dim wins over 2048/32",
        {
            "hidden_size": 2048,
            "num_hidden_layers": 48,
            "num_attention_heads": 32,
            "num_key_value_heads": 4,
            "head_dim": 128,
        },
        ("gqa", 48, 32, 4, 128),
    ),
    (
        "head_dim null counts as absent",
        {"hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14, "head_dim": None},
        ("mha", 24, 14, 14, 64),
    ),
    (
        "deepseek-v3: MLA's latent is vLLM's head size",
        {
            "model_type": "deepseek_v3",
            "hidden_size": 7168,
            "num_hidden_layers": 61,
            "num_attention_heads": 128,
            "num_key_value_heads": 128,
            "kv_lora_rank": 512,
            "qk_rope_head_dim": 64,
        },
        ("mla", 61, 128, 128, 576),
    ),
    (
        "llm_config wins over the wrapper",
        {
            "model_type": "internvl_chat",
            "hidden_size": 1,
            "llm_config": {"hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16},
        },
        ("mha", 24, 16, 16, 128),
    ),
    (
        "thinker_config.text_config",
        {
            "thinker_config": {
                "text_config": {
                    "hidden_size": 3584,
                    "num_hidden_layers": 28,
                    "num_attention_heads": 28,
                    "num_key_value_heads": 4,
                }
            }
        },
        ("gqa", 28, 28, 4, 128),
    ),
    (
        "mamba2: heads of the recurrence are not attention's",
        {"model_type": "mamba2", "hidden_size": 4096, "num_hidden_layers": 64, "num_heads": 128, "head_dim": 64},
        ("linear", 64, 0, 0, 0),
    ),
    ("xglm", {"d_model": 1024, "num_layers": 24, "attention_heads": 16}, ("mha", 24, 16, 16, 64)),
    (
        "zamba2: attention_head_dim",
        {
            "model_type": "zamba2",
            "hidden_size": 3584,
            "num_hidden_layers": 2,
            "num_attention_heads": 32,
            "attention_head_dim": 224,
            "layers_block_type": ["mamba", "hybrid"],
            "mamba_d_state": 64,
        },
        ("hybrid", 2, 32, 32, 224),
    ),
]


@pytest.mark.parametrize(("_", "config", "expected"), HEADS, ids=[row[0] for row in HEADS])
def test_heads(profile: Reader, _: str, config: dict[str, JsonValue], expected: tuple[str, int, int, int, int]) -> None:
    found = profile(**config).attention
    heads = (found.num_attention_heads, found.num_key_value_heads)
    assert (found.kind, found.num_layers, *heads, found.head_dim) == expected


KV: list[tuple[str, dict[str, JsonValue], int]] = [
    ("llama-3.1-8b: 32 layers of 8 heads of 128", LLAMA_8B, 32 * 2 * 8 * 128 * 2),
    (
        "qwen3-4b: 2560/32 would say 92160",
        {
            "hidden_size": 2560,
            "num_hidden_layers": 36,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
        },
        147456,
    ),
    (
        "deepseek-v3: one latent, no factor 2",
        {"num_hidden_layers": 61, "num_attention_heads": 128, "kv_lora_rank": 512, "qk_rope_head_dim": 64},
        70272,
    ),
    (
        "openelm: heads differ by layer, 63 KV heads in all",
        {
            "num_transformer_layers": 16,
            "model_dim": 1280,
            "head_dim": 64,
            "num_query_heads": [*[12] * 5, *[16] * 7, *[20] * 4],
            "num_kv_heads": [*[3] * 5, *[4] * 7, *[5] * 4],
        },
        63 * 64 * 2 * 2,
    ),
    (
        "gemma-4: 25 sliding layers of 8x256, 5 full ones of 2x512",
        {
            "num_hidden_layers": 30,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 256,
            "global_head_dim": 512,
            "num_global_key_value_heads": 2,
            "sliding_window": 1024,
            "layer_types": [*[*["sliding_attention"] * 5, "full_attention"] * 5],
        },
        25 * 2 * 8 * 256 * 2 + 5 * 2 * 2 * 512 * 2,
    ),
    (
        "mimo-v2: K of 192 and V of 128, sliding layers with heads of their own",
        {
            "num_hidden_layers": 2,
            "num_attention_heads": 64,
            "num_key_value_heads": 4,
            "head_dim": 192,
            "v_head_dim": 128,
            "swa_num_key_value_heads": 8,
            "swa_head_dim": 192,
            "swa_v_head_dim": 128,
            "hybrid_layer_pattern": [0, 1],
            "sliding_window": 128,
        },
        (4 + 8) * (192 + 128) * 2,
    ),
    (
        "qwen3-next: every fourth layer attends",
        {
            "num_hidden_layers": 48,
            "num_attention_heads": 16,
            "num_key_value_heads": 2,
            "head_dim": 256,
            "full_attention_interval": 4,
        },
        12 * 2 * 2 * 256 * 2,
    ),
    (
        "nemotron-nas: a layer without attention, one with 8 query heads a KV head",
        {
            "hidden_size": 8192,
            "num_hidden_layers": 2,
            "num_attention_heads": 64,
            "block_configs": [
                {"attention": {"n_heads_in_group": 8, "no_op": False}},
                {"attention": {"n_heads_in_group": None, "no_op": True}},
            ],
        },
        2 * 8 * 128 * 2,
    ),
    (
        "gemma-3n: layers that share a cache keep none",
        {
            "num_hidden_layers": 4,
            "num_attention_heads": 8,
            "num_key_value_heads": 2,
            "head_dim": 256,
            "num_kv_shared_layers": 1,
        },
        3 * 2 * 2 * 256 * 2,
    ),
    (
        "nemotron-h: two attention layers among five",
        {"hybrid_override_pattern": "M*-*E", "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128},
        2 * 2 * 2 * 128 * 2,
    ),
    (
        "minicpm3: latent projections, cached as plain heads",
        {
            "model_type": "minicpm3",
            "num_hidden_layers": 62,
            "num_attention_heads": 40,
            "num_key_value_heads": 40,
            "kv_lora_rank": 256,
            "qk_nope_head_dim": 64,
            "qk_rope_head_dim": 32,
            "v_head_dim": 64,
        },
        62 * 40 * 2 * 96 * 2,
    ),
    ("mamba keeps none", {"model_type": "mamba", "num_hidden_layers": 24, "hidden_size": 768, "state_size": 16}, 0),
]


@pytest.mark.parametrize(("_", "config", "expected"), KV, ids=[row[0] for row in KV])
def test_kv_bytes_per_token(profile: Reader, _: str, config: dict[str, JsonValue], expected: int) -> None:
    assert profile(**config).memory.kv_bytes_per_token == expected


CONTEXT: list[tuple[str, dict[str, JsonValue], int]] = [
    ("stated", {"max_position_embeddings": 40960}, 40960),
    ("linear stretches", {"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": 4.0}}, 16384),
    (
        "dynamic stretches",
        {"max_position_embeddings": 4096, "rope_scaling": {"rope_type": "dynamic", "factor": 2}},
        8192,
    ),
    ("yarn does not", {"max_position_embeddings": 163840, "rope_scaling": {"type": "yarn", "factor": 40}}, 163840),
    (
        "nor a vendor's yarn",
        {"max_position_embeddings": 32768, "rope_scaling": {"rope_type": "telechat3-yarn", "factor": 4}},
        32768,
    ),
    (
        "nor deepseek_yarn in transformers 5's words",
        {"max_position_embeddings": 1048576, "rope_parameters": {"rope_type": "deepseek_yarn", "factor": 32}},
        1048576,
    ),
    (
        "llama3 does not",
        {"max_position_embeddings": 131072, "rope_scaling": {"rope_type": "llama3", "factor": 8}},
        131072,
    ),
    (
        "longrope starts at the original length",
        {
            "max_position_embeddings": 131072,
            "original_max_position_embeddings": 4096,
            "rope_scaling": {"type": "longrope"},
        },
        4096,
    ),
    ("gpt2's word", {"n_positions": 1024}, 1024),
    ("mpt's word", {"max_seq_len": 2048}, 2048),
    ("the smallest of several", {"max_position_embeddings": 8192, "seq_length": 4096}, 4096),
    ("cohere's model_max_length wins", {"max_position_embeddings": 8192, "model_max_length": 131072}, 131072),
    ("nothing stated", {}, 2048),
]


@pytest.mark.parametrize(("_", "config", "expected"), CONTEXT, ids=[row[0] for row in CONTEXT])
def test_context_as_vllm_derives_it(profile: Reader, _: str, config: dict[str, JsonValue], expected: int) -> None:
    found = profile(**(LLAMA_8B | {"max_position_embeddings": None} | config))
    assert found.max_model_len == expected


def test_shorter_tokenizer_is_told_and_not_used(profile: Reader) -> None:
    profile.folder.mkdir()
    (profile.folder / "tokenizer_config.json").write_text('{"model_max_length": 2048}')
    found = profile(**LLAMA_8B)
    assert found.max_model_len == 131072
    finding = next(finding for finding in found.findings if finding.code == "context.tokenizer-shorter")
    assert finding.message == (
        "The tokenizer's model_max_length is 2048 and the model's context is 131072; vLLM takes 131072."
    )


WINDOWS: list[tuple[str, dict[str, JsonValue], tuple[int | None, int]]] = [
    ("mistral: all slide", {"sliding_window": 4096}, (4096, 32)),
    ("null: none slides", {"sliding_window": None}, (None, 0)),
    ("qwen2: switched off", {"sliding_window": 4096, "use_sliding_window": False, "max_window_layers": 8}, (None, 0)),
    ("qwen2: upper layers", {"sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 28}, (4096, 4)),
    ("gemma2: every other", {"model_type": "gemma2", "sliding_window": 4096}, (4096, 16)),
    ("gemma3: five of six", {"sliding_window": 1024, "sliding_window_pattern": 6}, (1024, 27)),
    ("exaone: letters", {"sliding_window": 4096, "sliding_window_pattern": "LLLG"}, (4096, 24)),
]


@pytest.mark.parametrize(("_", "config", "expected"), WINDOWS, ids=[row[0] for row in WINDOWS])
def test_sliding_layers(
    profile: Reader, _: str, config: dict[str, JsonValue], expected: tuple[int | None, int]
) -> None:
    found = profile(**(LLAMA_8B | config)).attention
    assert (found.sliding_window, found.num_sliding_layers) == expected


def test_window_without_effect_is_told(profile: Reader) -> None:
    config: dict[str, JsonValue] = {"sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 32}
    found = profile(**(LLAMA_8B | config))
    assert found.attention.num_sliding_layers == 0 and "attention.window-unused" in codes(found)


MOE: list[tuple[str, dict[str, JsonValue], tuple[int, int, int, int, int, str] | None]] = [
    (
        "mixtral",
        {"num_local_experts": 8, "num_experts_per_tok": 2, "intermediate_size": 14336},
        (8, 2, 14336, 0, 0, "softmax"),
    ),
    (
        "deepseek-v3",
        {
            "n_routed_experts": 256,
            "num_experts_per_tok": 8,
            "moe_intermediate_size": 2048,
            "n_shared_experts": 1,
            "first_k_dense_replace": 3,
            "scoring_func": "sigmoid",
        },
        (256, 8, 2048, 1, 3, "sigmoid"),
    ),
    (
        "qwen3.5: a shared width is a shared expert",
        {
            "num_experts": 256,
            "num_experts_per_tok": 8,
            "moe_intermediate_size": 512,
            "shared_expert_intermediate_size": 512,
        },
        (256, 8, 512, 1, 0, "softmax"),
    ),
    (
        "dbrx",
        {"ffn_config": {"moe_num_experts": 16, "moe_top_k": 4, "ffn_hidden_size": 10752}},
        (16, 4, 10752, 0, 0, "softmax"),
    ),
    (
        "llama-4: every other layer is dense",
        {"num_local_experts": 128, "num_experts_per_tok": 1, "interleave_moe_layer_step": 2},
        (128, 1, 14336, 0, 16, "softmax"),
    ),
    ("zero experts are dense", {"num_local_experts": 0}, None),
    ("null experts are dense", {"num_experts": None}, None),
]


@pytest.mark.parametrize(("_", "config", "expected"), MOE, ids=[row[0] for row in MOE])
def test_experts(
    profile: Reader, _: str, config: dict[str, JsonValue], expected: tuple[int, int, int, int, int, str] | None
) -> None:
    found = profile(**(LLAMA_8B | config)).moe
    assert (found and tuple(found.model_dump().values())[:6]) == expected


ROPE: list[tuple[str, dict[str, JsonValue], tuple[float, str, float | None, float] | None]] = [
    ("old key", {"rope_scaling": {"type": "linear", "factor": 4.0}}, (500000.0, "linear", 4.0, 1.0)),
    (
        "transformers 5",
        {"rope_theta": None, "rope_parameters": {"rope_theta": 1e6, "rope_type": "yarn", "factor": 8.0}},
        (1e6, "yarn", 8.0, 1.0),
    ),
    (
        "per kind of layer: full attention first",
        {
            "rope_parameters": {
                "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"},
                "full_attention": {"rope_theta": 1e6, "rope_type": "default"},
            }
        },
        (1e6, "default", None, 1.0),
    ),
    ("rotary_dim over head size", {"rotary_dim": 64}, (500000.0, "default", None, 0.5)),
    (
        "gpt-neox words",
        {"rope_theta": None, "rotary_emb_base": 10000, "rotary_pct": 0.25},
        (1e4, "default", None, 0.25),
    ),
    ("default base", {"rope_theta": None}, (1e4, "default", None, 1.0)),
    ("alibi", {"alibi": True}, None),
    ("learned positions", {"model_type": "opt"}, None),
    ("no positions", {"position_embedding_type": "nope"}, None),
]


@pytest.mark.parametrize(("_", "config", "expected"), ROPE, ids=[row[0] for row in ROPE])
def test_rope(
    profile: Reader, _: str, config: dict[str, JsonValue], expected: tuple[float, str, float | None, float] | None
) -> None:
    found = profile(**(LLAMA_8B | config)).rope
    assert (found and (found.theta, found.kind, found.factor, found.partial_rotary_factor)) == expected


def test_gated_delta_net_state(profile: Reader) -> None:
    """Qwen3.5-27B: 48 layers of 16 key and 48 value heads of 128, float32 recurrence."""
    found = profile(
        **LLAMA_8B
        | {
            "num_hidden_layers": 64,
            "full_attention_interval": 4,
            "linear_num_key_heads": 16,
            "linear_num_value_heads": 48,
            "linear_key_head_dim": 128,
            "linear_value_head_dim": 128,
            "linear_conv_kernel_dim": 4,
            "mamba_ssm_dtype": "float32",
        }
    )
    assert found.state is not None and found.state.num_layers == 48
    per_layer = (2 * 16 * 128 + 48 * 128) * 3 * 2 + 48 * 128 * 128 * 4
    assert found.memory.state_bytes_per_request == found.state.bytes_per_request == 48 * per_layer


def test_sources_name_the_key_that_answered(profile: Reader) -> None:
    found = profile(text_config=dict(LLAMA_8B), architectures=["LlavaForConditionalGeneration"])
    assert found.sources["attention.num_key_value_heads"] == "config.json:text_config.num_key_value_heads"
    assert found.sources["attention.head_dim"].endswith("hidden_size over config.json:text_config.num_attention_heads")
    assert found.sources["max_model_len"] == "config.json:text_config.max_position_embeddings"


@pytest.mark.parametrize("value", ["thirty-two", 1.5, -3, True, [1, "x"]])
def test_a_layer_count_that_is_none(profile: Reader, value: JsonValue) -> None:
    with pytest.raises(BrokenCheckpointError, match=r"config.json: num_hidden_layers is .*, not a whole number\."):
        profile(**(LLAMA_8B | {"num_hidden_layers": value}))


QUANTIZED: list[tuple[str, dict[str, JsonValue], tuple[str, int | None, int | None, bool | None]]] = [
    ("gptq", {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True}, ("gptq", 4, 128, True)),
    ("awq", {"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": True}, ("awq", 4, 64, False)),
    ("fp8 in blocks", {"quant_method": "fp8", "weight_block_size": [128, 128]}, ("fp8", 8, 128, None)),
    (
        "compressed-tensors",
        {
            "quant_method": "compressed-tensors",
            "config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": 32, "symmetric": True}}},
        },
        ("compressed-tensors", 4, 32, True),
    ),
    (
        "modelopt",
        {"quant_method": "modelopt", "producer": {"name": "modelopt"}, "quant_algo": "NVFP4", "group_size": 16},
        ("modelopt_fp4", 4, 16, None),
    ),
    ("bitsandbytes", {"quant_method": "bitsandbytes", "load_in_4bit": True}, ("bitsandbytes", 4, None, None)),
    ("per channel", {"quant_method": "gptq", "bits": 8, "group_size": -1}, ("gptq", 8, None, None)),
]


@pytest.mark.parametrize(("_", "config", "expected"), QUANTIZED, ids=[row[0] for row in QUANTIZED])
def test_quantization_config(
    profile: Reader, _: str, config: dict[str, JsonValue], expected: tuple[str, int | None, int | None, bool | None]
) -> None:
    for whole in (
        LLAMA_8B | {"quantization_config": config},
        {"text_config": LLAMA_8B | {"quantization_config": config}},
    ):
        found = profile(**whole).quantization
        assert found is not None
        assert (found.method, found.bits, found.group_size, found.symmetric) == expected


def test_hf_quant_config_alone(profile: Reader) -> None:
    profile.folder.mkdir()
    text = '{"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}}'
    (profile.folder / "hf_quant_config.json").write_text(text)
    found = profile(**LLAMA_8B).quantization
    assert found is not None and (found.method, found.bits, found.ignored) == ("modelopt", 8, ("lm_head",))
    assert found.source == "hf_quant_config.json"


def test_auto_map_is_listed_and_not_needed_by_a_native_class(tmp_path: Path) -> None:
    trap = "raise SystemExit('the code of a checkpoint was run')"
    folder = write_model(
        tmp_path / "m", {"auto_map": {"AutoModel": "modeling_x.X", "AutoTokenizer": ["tok.T", None]}}, {"tok.py": trap}
    )
    found = analyze(resolve_model(str(folder)), vllm_version="0.32.0", platform="cpu")
    assert found.remote_code is not None and found.remote_code.files == ("tok.py",)
    assert found.remote_code.auto_map == {"AutoModel": "modeling_x.X", "AutoTokenizer": "tok.T"}
    assert "remote-code.untrusted" in codes(found)
    trusted = analyze(resolve_model(str(folder)), vllm_version="0.32.0", platform="cpu", trust_remote_code=True)
    assert "remote-code.untrusted" not in codes(trusted)


def test_license_from_the_front_matter(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m")
    (folder / "README.md").write_text("---\nlicense: other\nlicense_name: llama3.1\n---\n# Model\n")
    assert analyze(resolve_model(str(folder)), vllm_version="0.32.0", platform="cpu").license == "llama3.1"
