"""Models by their sizes alone, facts of public ones, and what `analyze` makes of them."""

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue

from autoadapter.analyze import analyze, resolve_model
from autoadapter.artifacts import ModelProfile, ModelStructure

Json = dict[str, JsonValue]
Stored = tuple[str, Sequence[int]]
ITEM = {"BF16": 2, "F16": 2, "F32": 4, "F8_E4M3": 1, "U8": 1, "I32": 4, "I64": 8}


def profile_of(
    folder: Path, config: Mapping[str, JsonValue], files: Mapping[str, bytes | str] | None = None
) -> ModelProfile:
    """The profile of a config, with the files beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(dict(config)))
    for name, content in (files or {}).items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return analyze(resolve_model(str(folder)), vllm_version="0.32.0", platform="cuda")


def structure_of(
    folder: Path, config: Mapping[str, JsonValue], files: Mapping[str, bytes | str] | None = None
) -> ModelStructure:
    """Its structure."""
    return profile_of(folder, config, files).structure


def stored(tensors: Mapping[str, Stored]) -> bytes:
    """A safetensors file: name → type and shape. The data are a hole in the file's end, so sizes must be small."""
    header: dict[str, object] = {}
    offset = 0
    for name, (dtype, shape) in tensors.items():
        count = ITEM[dtype]
        for dimension in shape:
            count *= dimension
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + count]}
        offset += count
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(offset)


def mistral(**sizes: JsonValue) -> Json:
    """Of the common kind: 32 layers of width 4096."""
    common: Json = {
        "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }  # fmt: skip
    return common | sizes


LLAMA_70B = mistral(hidden_size=8192, num_hidden_layers=80, num_attention_heads=64, intermediate_size=28672)
QWEN25_7B = mistral(
    model_type="qwen2", hidden_size=3584, num_hidden_layers=28, num_attention_heads=28, num_key_value_heads=4,
    intermediate_size=18944, vocab_size=152064,
)  # fmt: skip
QWEN25_72B = QWEN25_7B | {
    "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
    "intermediate_size": 29568,
}  # fmt: skip
QWEN3_30B = mistral(
    model_type="qwen3_moe", hidden_size=2048, num_hidden_layers=48, num_attention_heads=32, num_key_value_heads=4,
    head_dim=128, intermediate_size=6144, moe_intermediate_size=768, num_experts=128, num_experts_per_tok=8,
    decoder_sparse_step=1, mlp_only_layers=[], vocab_size=151936,
)  # fmt: skip
DEEPSEEK_V2_LITE = mistral(
    model_type="deepseek_v2", hidden_size=2048, num_hidden_layers=27, num_attention_heads=16, num_key_value_heads=16,
    intermediate_size=10944, moe_intermediate_size=1408, n_routed_experts=64, n_shared_experts=2,
    num_experts_per_tok=6, first_k_dense_replace=1, moe_layer_freq=1, kv_lora_rank=512, q_lora_rank=None,
    qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, vocab_size=102400,
)  # fmt: skip
DEEPSEEK_V3 = DEEPSEEK_V2_LITE | {
    "model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128,
    "num_key_value_heads": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 256,
    "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3, "q_lora_rank": 1536,
    "vocab_size": 129280, "topk_method": "noaux_tc",
}  # fmt: skip
MIXTRAL = mistral(model_type="mixtral", num_local_experts=8, num_experts_per_tok=2, vocab_size=32000)
GPT_OSS_20B = mistral(
    model_type="gpt_oss", hidden_size=2880, num_hidden_layers=24, num_attention_heads=64, head_dim=64,
    intermediate_size=2880, num_local_experts=32, num_experts_per_tok=4, vocab_size=201088, attention_bias=True,
    sliding_window=128, layer_types=["sliding_attention", "full_attention"] * 12,
    quantization_config={
        "quant_method": "mxfp4",
        "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens",
                                   "lm_head"],
    },
)  # fmt: skip
GEMMA2_9B = mistral(
    model_type="gemma2", hidden_size=3584, num_hidden_layers=42, num_attention_heads=16, head_dim=256,
    vocab_size=256000, sliding_window=4096, tie_word_embeddings=True,
)  # fmt: skip
GEMMA3_12B: Json = {
    "model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"], "torch_dtype": "bfloat16",
    "mm_tokens_per_image": 256,
    "text_config": {
        "model_type": "gemma3_text", "hidden_size": 3840, "num_hidden_layers": 48, "num_attention_heads": 16,
        "num_key_value_heads": 8, "head_dim": 256, "intermediate_size": 15360, "vocab_size": 262208,
        "sliding_window": 1024, "sliding_window_pattern": 6,
    },
    "vision_config": {
        "model_type": "siglip_vision_model", "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27,
        "num_attention_heads": 16, "patch_size": 14, "image_size": 896,
    },
}  # fmt: skip
MISTRAL_SMALL_31: Json = {
    "model_type": "mistral3", "architectures": ["Mistral3ForConditionalGeneration"], "spatial_merge_size": 2,
    "torch_dtype": "bfloat16", "tie_word_embeddings": False,
    "text_config": {
        "model_type": "mistral", "hidden_size": 5120, "num_hidden_layers": 40, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 32768, "vocab_size": 131072,
    },
    "vision_config": {
        "model_type": "pixtral", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
        "num_attention_heads": 16, "head_dim": 64, "patch_size": 14, "image_size": 1540,
    },
}  # fmt: skip
QWEN35_LAYERS = (["linear_attention"] * 3 + ["full_attention"]) * 16
GEMMA4_LAYERS = (["sliding_attention"] * 5 + ["full_attention"]) * 5
QWEN35_27B: Json = {
    "model_type": "qwen3_5", "architectures": ["Qwen3_5ForConditionalGeneration"], "tie_word_embeddings": False,
    "text_config": {
        "model_type": "qwen3_5_text", "hidden_size": 5120, "num_hidden_layers": 64, "num_attention_heads": 24,
        "num_key_value_heads": 4, "head_dim": 256, "intermediate_size": 17408, "vocab_size": 248320,
        "layer_types": [*QWEN35_LAYERS], "attn_output_gate": True,
        "linear_num_key_heads": 16, "linear_num_value_heads": 48, "linear_key_head_dim": 128,
        "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "mamba_ssm_dtype": "float32",
        "mtp_num_hidden_layers": 1, "dtype": "bfloat16",
    },
    "vision_config": {
        "model_type": "qwen3_5", "hidden_size": 1152, "intermediate_size": 4304, "depth": 27, "num_heads": 16,
        "in_channels": 3, "patch_size": 16, "temporal_patch_size": 2, "spatial_merge_size": 2,
        "num_position_embeddings": 2304, "out_hidden_size": 5120, "deepstack_visual_indexes": [],
    },
}  # fmt: skip
NEMOTRON_NANO = mistral(
    model_type="nemotron_h", hidden_size=2688, num_attention_heads=32, num_key_value_heads=2, head_dim=128,
    num_hidden_layers=52, hybrid_override_pattern="MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
    intermediate_size=1856, moe_intermediate_size=1856, moe_shared_expert_intermediate_size=3712,
    n_routed_experts=128, n_shared_experts=1, num_experts_per_tok=6, mamba_num_heads=64, mamba_head_dim=64,
    n_groups=8, ssm_state_size=128, conv_kernel=4, use_conv_bias=True, vocab_size=131072,
)  # fmt: skip
GEMMA4_26B: Json = {
    "model_type": "gemma4", "architectures": ["Gemma4ForConditionalGeneration"], "vision_soft_tokens_per_image": 280,
    "text_config": {
        "model_type": "gemma4_text", "hidden_size": 2816, "num_hidden_layers": 30, "num_attention_heads": 16,
        "hidden_size_per_layer_input": 0,
        "num_key_value_heads": 8, "head_dim": 256, "global_head_dim": 512, "num_global_key_value_heads": 2,
        "attention_k_eq_v": True, "enable_moe_block": True, "intermediate_size": 2112, "moe_intermediate_size": 704,
        "num_experts": 128, "top_k_experts": 8, "vocab_size": 262144, "sliding_window": 1024,
        "layer_types": [*GEMMA4_LAYERS], "tie_word_embeddings": True,
    },
    "vision_config": {
        "model_type": "gemma4_vision", "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27,
        "num_attention_heads": 16, "num_key_value_heads": 16, "patch_size": 16, "position_embedding_size": 10240,
    },
}  # fmt: skip
