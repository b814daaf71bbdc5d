"""vLLM's own parse of 22 models against ours, from the fields of their configs that matter.

vLLM's values are those of its test data (`model_arch_groundtruth.json`, vLLM 0.32). Where a profile says something
else on purpose, the reason stands in `EXPLAINED`.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from autoadapter.analyze import analyze, resolve_model
from autoadapter.artifacts import ModelProfile


class Truth(NamedTuple):
    """What vLLM makes of a config."""

    hidden_size: int
    layers: int
    heads: int
    head_size: int
    vocab_size: int
    kv_heads: int
    experts: int = 0
    dtype: str = "bfloat16"


EXPLAINED = {
    ("mamba-130m", "dtype"): "vLLM reads float32 from the file; the profile says what --dtype auto serves, half of it",
    ("longcat-flash", "dtype"): "the file states none; vLLM's parse says float32 before it looks at the weights",
    ("dbrx", "experts"): "vLLM's parse says 0, because the count is nested in ffn_config; the model has 16",
    (
        "deepseek-mtp-draft",
        "layers",
    ): "vLLM counts a draft model's layers of prediction; the profile the decoder's",
    ("prithvi", "*"): "a vision backbone without a decoder: refused or without sizes, and never planned",
}

MTP = {
    "hidden_size": 2560,
    "num_hidden_layers": 5,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "n_routed_experts": 72,
    "num_experts_per_tok": 6,
    "moe_intermediate_size": 1024,
    "num_nextn_predict_layers": 10,
    "vocab_size": 129280,
    "torch_dtype": "bfloat16",
}


def config(architecture: str, model_type: str, **fields: Any) -> dict[str, Any]:
    return {"architectures": [architecture], "model_type": model_type, **fields}


def plain(architecture: str, model_type: str, sizes: tuple[int, int, int, int, int], **fields: Any) -> dict[str, Any]:
    """`sizes`: hidden, layers, heads, KV heads, vocabulary."""
    names = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "vocab_size")
    return config(architecture, model_type, **dict(zip(names, sizes, strict=True)), torch_dtype="bfloat16", **fields)


MODELS: dict[str, tuple[dict[str, Any], Truth]] = {
    "mamba-130m": (
        config("MambaForCausalLM", "mamba", hidden_size=768, num_hidden_layers=24, vocab_size=50280, state_size=16,
               torch_dtype="float32"),
        Truth(768, 24, 0, 0, 50280, 0, dtype="float32"),
    ),
    "mamba-codestral": (
        config("Mamba2ForCausalLM", "mamba", hidden_size=4096, num_hidden_layers=64, vocab_size=32768, state_size=128,
               n_groups=8, torch_dtype="bfloat16"),
        Truth(4096, 64, 0, 0, 32768, 0),
    ),
    "falcon-mamba": (
        config("FalconMambaForCausalLM", "falcon_mamba", hidden_size=4096, num_hidden_layers=64, vocab_size=65024,
               state_size=16, torch_dtype="bfloat16"),
        Truth(4096, 64, 0, 0, 65024, 0),
    ),
    "zamba2": (
        plain("Zamba2ForCausalLM", "zamba2", (3584, 81, 32, 32, 32000), attention_head_dim=224,
              layers_block_type=["mamba"] * 75 + ["hybrid"] * 6, hybrid_layer_ids=[6, 11, 17, 23, 29, 35]),
        Truth(3584, 81, 32, 224, 32000, 32),
    ),
    "mpt": (
        config("MPTForCausalLM", "mpt", d_model=4096, n_layers=32, n_heads=32, vocab_size=50432, max_seq_len=2048,
               attn_config={"alibi": True}, torch_dtype="bfloat16"),
        Truth(4096, 32, 32, 128, 50432, 32),
    ),
    "dbrx": (
        config("DbrxForCausalLM", "dbrx", d_model=6144, n_layers=40, n_heads=48, vocab_size=100352, max_seq_len=32768,
               attn_config={"kv_n_heads": 8},
               ffn_config={"moe_num_experts": 16, "moe_top_k": 4, "ffn_hidden_size": 10752},
               torch_dtype="bfloat16"),
        Truth(6144, 40, 48, 128, 100352, 8),
    ),
    "falcon-7b": (
        config("FalconForCausalLM", "falcon", hidden_size=4544, num_hidden_layers=32, num_attention_heads=71,
               multi_query=True, new_decoder_architecture=False, vocab_size=65024, torch_dtype="bfloat16"),
        Truth(4544, 32, 71, 64, 65024, 1),
    ),
    "falcon-40b": (
        config("FalconForCausalLM", "falcon", hidden_size=8192, num_hidden_layers=60, num_attention_heads=128,
               num_kv_heads=8, multi_query=True, new_decoder_architecture=True, vocab_size=65024,
               torch_dtype="bfloat16"),
        Truth(8192, 60, 128, 64, 65024, 8),
    ),
    "deepseek-mtp-main": (
        config("DeepseekV3ForCausalLM", "deepseek_v3", **MTP), Truth(2560, 5, 32, 576, 129280, 32, 72),
    ),
    "deepseek-mtp-draft": (
        config("DeepseekV3ForCausalLM", "deepseek_v3", **MTP), Truth(2560, 10, 32, 576, 129280, 32, 72),
    ),
    "qwen3-next": (
        plain("Qwen3NextForCausalLM", "qwen3_next", (2048, 48, 16, 2, 151936), head_dim=256, num_experts=512,
              num_experts_per_tok=10, moe_intermediate_size=512, full_attention_interval=4, linear_num_value_heads=32,
              linear_num_key_heads=16, linear_key_head_dim=128, linear_value_head_dim=128, linear_conv_kernel_dim=4),
        Truth(2048, 48, 16, 256, 151936, 2, 512),
    ),
    "qwen3-next-tiny": (
        plain("Qwen3NextForCausalLM", "qwen3_next", (8, 4, 16, 8, 151936), head_dim=32, num_experts=32,
              num_experts_per_tok=10, moe_intermediate_size=16, full_attention_interval=4, linear_num_value_heads=8,
              linear_num_key_heads=4, linear_key_head_dim=32, linear_value_head_dim=32, linear_conv_kernel_dim=4),
        Truth(8, 4, 16, 32, 151936, 8, 32),
    ),
    "glm-4.5": (
        plain("Glm4MoeForCausalLM", "glm4_moe", (5120, 92, 96, 8, 151552), head_dim=128, n_routed_experts=160,
              num_experts_per_tok=8, moe_intermediate_size=1536),
        Truth(5120, 92, 96, 128, 151552, 8, 160),
    ),
    "ernie-4.5": (
        plain("Ernie4_5_MoeForCausalLM", "ernie4_5_moe", (2560, 28, 20, 4, 103424), head_dim=128, moe_num_experts=64,
              moe_k=6, moe_intermediate_size=1536),
        Truth(2560, 28, 20, 128, 103424, 4, 64),
    ),
    "gpt-oss": (
        plain("GptOssForCausalLM", "gpt_oss", (2880, 24, 64, 8, 201088), head_dim=64, num_local_experts=32,
              num_experts_per_tok=4, intermediate_size=2880, sliding_window=128,
              layer_types=["sliding_attention", "full_attention"] * 12),
        Truth(2880, 24, 64, 64, 201088, 8, 32),
    ),
    "deepseek-v3.2": (
        plain("DeepseekV32ForCausalLM", "deepseek_v32", (7168, 61, 128, 128, 129280), kv_lora_rank=512,
              qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128, n_routed_experts=256, num_experts_per_tok=8,
              moe_intermediate_size=2048, index_head_dim=128, index_n_heads=64, index_topk=2048),
        Truth(7168, 61, 128, 576, 129280, 128, 256),
    ),
    "llama-4-scout": (
        config("Llama4ForConditionalGeneration", "llama4", torch_dtype="bfloat16", vision_config={},
               text_config=plain("", "llama4_text", (5120, 48, 40, 8, 202048), head_dim=128, num_local_experts=16,
                                 num_experts_per_tok=1, intermediate_size=8192, attention_chunk_size=8192)),
        Truth(5120, 48, 40, 128, 202048, 8, 16),
    ),
    "nemotron-super-49b": (
        config("DeciLMForCausalLM", "nemotron-nas", hidden_size=8192, num_hidden_layers=80, num_attention_heads=64,
               num_key_value_heads=None, vocab_size=128256, torch_dtype="bfloat16",
               block_configs=[{"attention": {"n_heads_in_group": 8, "no_op": False}, "ffn": {"ffn_mult": 5.25}}] * 49
               + [{"attention": {"n_heads_in_group": None, "no_op": True}, "ffn": {"ffn_mult": 1.0}}] * 31),
        Truth(8192, 80, 64, 128, 128256, 8),
    ),
    "mimo-7b": (plain("MiMoForCausalLM", "mimo", (4096, 36, 32, 8, 151680)), Truth(4096, 36, 32, 128, 151680, 8)),
    "longcat-flash": (
        config("LongcatFlashForCausalLM", "longcat_flash", hidden_size=6144, num_layers=28, num_attention_heads=64,
               kv_lora_rank=512, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128, n_routed_experts=512,
               moe_topk=12, expert_ffn_hidden_size=2048, vocab_size=131072),
        Truth(6144, 28, 64, 576, 131072, 64, 512, dtype="float32"),
    ),
    "nemotron-3-nano": (
        plain("NemotronHForCausalLM", "nemotron_h", (2688, 52, 32, 2, 131072), head_dim=128, n_routed_experts=128,
              num_experts_per_tok=6, moe_intermediate_size=1856, mamba_num_heads=64, mamba_head_dim=64,
              ssm_state_size=128, conv_kernel=4, n_groups=8,
              hybrid_override_pattern="MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"),
        Truth(2688, 52, 32, 128, 131072, 2, 128),
    ),
}  # fmt: skip
PRITHVI = config("Terratorch", "timm_wrapper", pretrained_cfg={"img_size": 512})


def profile(folder: Path, document: dict[str, Any]) -> ModelProfile:
    (folder / "config.json").write_text(json.dumps(document))
    return analyze(resolve_model(str(folder)), vllm_version="0.32.0", platform="cuda")


def ours(found: ModelProfile) -> Truth:
    attention, attends = found.attention, found.attention.kind != "none" and found.memory.kv_bytes_per_token > 0
    return Truth(
        hidden_size=found.embedding.hidden_size,
        layers=attention.num_layers,
        heads=attention.num_attention_heads if attends else 0,
        head_size=attention.head_dim if attends else 0,
        vocab_size=found.embedding.vocab_size,
        kv_heads=attention.num_key_value_heads if attends else 0,
        experts=found.moe.num_experts if found.moe else 0,
        dtype=found.memory.served_dtype,
    )


@pytest.mark.parametrize("name", sorted(MODELS))
def test_same_as_vllm(tmp_path: Path, name: str) -> None:
    document, truth = MODELS[name]
    found = ours(profile(tmp_path, document))
    different = {field for field in Truth._fields if getattr(found, field) != getattr(truth, field)}
    assert different == {field for model, field in EXPLAINED if model == name}


def test_every_model_of_the_data_is_here() -> None:
    assert len(MODELS) + 1 == 22


def test_dbrx_has_its_experts(tmp_path: Path) -> None:
    assert ours(profile(tmp_path, MODELS["dbrx"][0])).experts == 16


def test_vision_backbone_will_not_start(tmp_path: Path) -> None:
    found = profile(tmp_path, PRITHVI)
    assert found.attention.num_layers == 0 and found.verdict.outcome != "will_start"
