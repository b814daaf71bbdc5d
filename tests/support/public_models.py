"""config.json of well-known models, as far as sizes follow from them: public facts, written by hand."""

from typing import Any

Facts = dict[str, Any]


def _decoder(architecture: str, model_type: str, shape: tuple[int, ...], **rest: Any) -> Facts:
    """Shape: layers, hidden, heads, KV heads, intermediate, vocabulary."""
    layers, hidden, heads, kv_heads, intermediate, vocab = shape
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": intermediate,
        "vocab_size": vocab,
        "max_position_embeddings": 32768,
        "torch_dtype": "bfloat16",
        "tie_word_embeddings": False,
        **rest,
    }


def _llama(*shape: int, **rest: Any) -> Facts:
    return _decoder("LlamaForCausalLM", "llama", shape, **rest)


def _gemma(generation: str, *shape: int, **rest: Any) -> Facts:
    name = {"gemma": "Gemma", "gemma2": "Gemma2", "gemma3_text": "Gemma3"}[generation]
    return _decoder(f"{name}ForCausalLM", generation, shape, tie_word_embeddings=True, **rest)


def _packed(bits: int, kind: str) -> Facts:
    """compressed-tensors: one scale a channel, everything but the head."""
    weights = {"num_bits": bits, "type": kind, "strategy": "channel", "symmetric": True}
    group = {"targets": ["Linear"], "weights": weights, "input_activations": {"num_bits": 8, "type": kind}}
    return {
        "quantization_config": {
            "quant_method": "compressed-tensors",
            "config_groups": {"group_0": group},
            "ignore": ["lm_head"],
        }
    }


SIGLIP = {
    "model_type": "siglip_vision_model",
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_attention_heads": 16,
    "num_hidden_layers": 27,
    "image_size": 896,
    "patch_size": 14,
}
PIXTRAL = {
    "model_type": "pixtral",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
    "head_dim": 64,
    "image_size": 1540,
    "patch_size": 14,
}
MOON_VIT = {
    "model_type": "moonvit",
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_attention_heads": 16,
    "num_hidden_layers": 27,
    "patch_size": 14,
    "merge_kernel_size": [2, 2],
}
LATENT = {"kv_lora_rank": 512, "q_lora_rank": None, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
LITE_EXPERTS = {
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "num_experts_per_tok": 6,
    "moe_intermediate_size": 1408,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
}
GEMMA_3_PLAIN = {"sliding_window": 1024, "sliding_window_pattern": 6}
MXFP4_KEEPS = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
GEMMA_3 = {
    "sliding_window": 1024,
    "sliding_window_pattern": 6,
    "max_position_embeddings": 131072,
    "rope_scaling": {"rope_type": "linear", "factor": 8.0},
}


def _seeing(architecture: str, model_type: str, text: Facts, vision: Facts, **rest: Any) -> Facts:
    inner = {key: value for key, value in text.items() if key != "architectures"}
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "torch_dtype": "bfloat16",
        "text_config": inner,
        "vision_config": vision,
        **rest,
    }


def _gemma_3(*shape: int) -> Facts:
    text = _gemma("gemma3_text", *shape, head_dim=128 if shape[1] == 5376 else 256, **GEMMA_3)
    return _seeing("Gemma3ForConditionalGeneration", "gemma3", text, SIGLIP, mm_tokens_per_image=256)


LLAMA_3 = {"max_position_embeddings": 131072, "rope_theta": 500000.0}
LLAMA_8B = _llama(32, 4096, 32, 8, 14336, 128256, **LLAMA_3)
LLAMA_70B = _llama(80, 8192, 64, 8, 28672, 128256, **LLAMA_3)
MISTRAL_24B = _seeing(
    "Mistral3ForConditionalGeneration",
    "mistral3",
    _decoder("MistralForCausalLM", "mistral", (40, 5120, 32, 8, 32768, 131072), head_dim=128),
    PIXTRAL,
    spatial_merge_size=2,
)
QWEN2_7B = _decoder("Qwen2ForCausalLM", "qwen2", (28, 3584, 28, 4, 18944, 152064))
QWEN2_72B = _decoder("Qwen2ForCausalLM", "qwen2", (80, 8192, 64, 8, 29568, 152064))

PUBLIC: dict[str, Facts] = {
    "codellama-7b": _llama(32, 4096, 32, 32, 11008, 32016),
    "llama-8b": LLAMA_8B,
    "llama-8b-w8a8": LLAMA_8B | _packed(8, "int"),
    "llama-70b": LLAMA_70B,
    "llama-70b-fp8": LLAMA_70B | _packed(8, "float"),
    "llama-70b-w8a8": LLAMA_70B | _packed(8, "int"),
    "gemma-7b": _gemma("gemma", 28, 3072, 16, 16, 24576, 256000, head_dim=256),
    "gemma-2-9b": _gemma("gemma2", 42, 3584, 16, 8, 14336, 256000, head_dim=256, sliding_window=4096),
    "gemma-2-27b": _gemma("gemma2", 46, 4608, 32, 16, 36864, 256000, head_dim=128, sliding_window=4096),
    "gemma-3-12b": _gemma_3(48, 3840, 16, 8, 15360, 262208),
    "gemma-3-27b": _gemma_3(62, 5376, 32, 16, 21504, 262208),
    "gemma-3-27b-text": _gemma(
        "gemma3_text", 62, 5376, 32, 16, 21504, 262208, head_dim=128, max_position_embeddings=131072, **GEMMA_3_PLAIN
    ),
    "granite-3.3-8b": _decoder(
        "GraniteForCausalLM", "granite", (40, 4096, 32, 8, 12800, 49159), tie_word_embeddings=True
    )
    | {"max_position_embeddings": 131072},
    "phi-4": _decoder("Phi3ForCausalLM", "phi3", (40, 5120, 40, 10, 17920, 100352)),
    "mistral-24b": MISTRAL_24B,
    "mistral-24b-w8a8": MISTRAL_24B
    | {
        "quantization_config": {
            **_packed(8, "int")["quantization_config"],
            "ignore": ["re:.*lm_head", "re:vision_tower.*", "re:multi_modal_projector.*"],
        }
    },
    "mixtral-8x7b": _decoder(
        "MixtralForCausalLM", "mixtral", (32, 4096, 32, 8, 14336, 32000), num_local_experts=8, num_experts_per_tok=2
    ),
    "qwen2.5-7b": QWEN2_7B,
    "qwen2.5-7b-w8a8": QWEN2_7B | _packed(8, "int"),
    "qwen2.5-72b": QWEN2_72B,
    "qwen3-8b": _decoder("Qwen3ForCausalLM", "qwen3", (36, 4096, 32, 8, 12288, 151936), head_dim=128),
    "qwen3-8b-awq": _decoder("Qwen3ForCausalLM", "qwen3", (36, 4096, 32, 8, 12288, 151936), head_dim=128)
    | {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}},
    "gpt-oss-20b": _decoder(
        "GptOssForCausalLM",
        "gpt_oss",
        (24, 2880, 64, 8, 2880, 201088),
        head_dim=64,
        num_local_experts=32,
        num_experts_per_tok=4,
        sliding_window=128,
        layer_types=["sliding_attention", "full_attention"] * 12,
        attention_bias=True,
        quantization_config={"quant_method": "mxfp4", "modules_to_not_convert": MXFP4_KEEPS},
    ),
    "nemotron-nano-9b-v2": _decoder(
        "NemotronHForCausalLM",
        "nemotron_h",
        (56, 4480, 40, 8, 15680, 131072),
        hybrid_override_pattern="M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-",
        attention_head_dim=128,
        mamba_num_heads=128,
        mamba_head_dim=80,
        n_groups=8,
        ssm_state_size=128,
        conv_kernel=4,
        use_bias=False,
        mlp_hidden_act="relu2",
    ),
    "qwen3-30b-a3b": _decoder(
        "Qwen3MoeForCausalLM",
        "qwen3_moe",
        (48, 2048, 32, 4, 6144, 151936),
        head_dim=128,
        num_experts=128,
        num_experts_per_tok=8,
        moe_intermediate_size=768,
        decoder_sparse_step=1,
        mlp_only_layers=[],
    ),
    "deepseek-v2-lite": _decoder(
        "DeepseekV2ForCausalLM", "deepseek_v2", (27, 2048, 16, 16, 10944, 102400), **LATENT, **LITE_EXPERTS
    ),
    "kimi-vl-a3b": _seeing(
        "KimiVLForConditionalGeneration",
        "kimi_vl",
        _decoder("DeepseekV3ForCausalLM", "deepseek_v3", (27, 2048, 16, 16, 11264, 163840), **LATENT, **LITE_EXPERTS),
        MOON_VIT,
    ),
}
"""Name → config.json."""


def shortened(facts: Facts, layers: int | None) -> Facts:
    """A model's first layers alone."""
    if layers is None:
        return facts
    small = {**facts, "num_hidden_layers": layers}
    if "layer_types" in facts:
        small["layer_types"] = facts["layer_types"][:layers]
    return small
