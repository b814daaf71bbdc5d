"""Small configs in the shape of real families: the spellings of layers, heads, experts and RoPE."""

from typing import Any

BASE = {
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 256,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "eos_token_id": [1, 2],
}


def _model(architecture: str, model_type: str, **rest: Any) -> dict[str, Any]:
    return {"architectures": [architecture], "model_type": model_type, **rest}


def _plain(architecture: str, model_type: str, **rest: Any) -> dict[str, Any]:
    return _model(architecture, model_type, **{**BASE, **rest})


MLA = {"kv_lora_rank": 32, "q_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16}
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": True}
LAYERS = ["linear_attention", "linear_attention", "linear_attention", "full_attention"]
BLOCK_FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}
PACKED = {
    "quant_method": "compressed-tensors",
    "config_groups": {
        "group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "group_size": 32, "symmetric": True}}
    },
    "ignore": ["lm_head", "re:.*mlp.gate$"],
    "kv_cache_scheme": {"num_bits": 8, "type": "float", "dynamic": False},
}
MIXED = {
    "quant_method": "modelopt",
    "quant_algo": "MIXED_PRECISION",
    "kv_cache_quant_algo": "FP8",
    "quantized_layers": {"model.layers.0.mlp": {"quant_algo": "NVFP4", "group_size": 16}, "a": {"quant_algo": "FP8"}},
    "exclude_modules": ["lm_head", "model.layers.1.*"],
}

FAMILIES: dict[str, dict[str, Any]] = {
    "llama": _plain(
        "LlamaForCausalLM",
        "llama",
        head_dim=16,
        rope_scaling={"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 1024},
    ),
    "qwen2": _plain("Qwen2ForCausalLM", "qwen2", sliding_window=512, use_sliding_window=True, max_window_layers=2),
    "qwen3_moe": _plain("Qwen3MoeForCausalLM", "qwen3_moe", num_experts=8, **EXPERTS, quantization_config=BLOCK_FP8),
    "mixtral": _plain("MixtralForCausalLM", "mixtral", num_local_experts=4, num_experts_per_tok=2),
    "deepseek_v3": _plain(
        "DeepseekV3ForCausalLM",
        "deepseek_v3",
        **MLA,
        **EXPERTS,
        n_routed_experts=8,
        n_shared_experts=1,
        n_group=2,
        topk_group=1,
        first_k_dense_replace=1,
        num_nextn_predict_layers=1,
        scoring_func="sigmoid",
        rope_scaling={"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096},
    ),
    "gemma3": _model(
        "Gemma3ForConditionalGeneration",
        "gemma3",
        text_config={**BASE, "model_type": "gemma3_text", "sliding_window": 64, "sliding_window_pattern": 2},
        vision_config={"hidden_size": 32, "image_size": 224, "patch_size": 14, "num_hidden_layers": 2},
        mm_tokens_per_image=256,
    ),
    "gemma4": _model(
        "Gemma4ForConditionalGeneration",
        "gemma4",
        text_config={
            **BASE,
            "model_type": "gemma4_text",
            "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
            "sliding_window": 64,
            "head_dim": 16,
            "global_head_dim": 32,
            "num_global_key_value_heads": 1,
            "num_kv_shared_layers": 1,
            "rope_parameters": {
                "full_attention": {"rope_type": "default", "rope_theta": 1e6},
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            },
        },
        vision_config={"hidden_size": 32},
    ),
    "gpt2": _model(
        "GPT2LMHeadModel", "gpt2", n_embd=64, n_layer=2, n_head=4, n_positions=128, vocab_size=256, n_inner=None
    ),
    "falcon": _model(
        "FalconForCausalLM",
        "falcon",
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_kv_heads=2,
        new_decoder_architecture=True,
        alibi=False,
        vocab_size=256,
    ),
    "mpt": _model(
        "MPTForCausalLM",
        "mpt",
        d_model=64,
        n_layers=2,
        n_heads=4,
        max_seq_len=256,
        expansion_ratio=4,
        vocab_size=256,
        attn_config={"alibi": True, "kv_n_heads": 2},
    ),
    "mamba2": _model(
        "Mamba2ForCausalLM",
        "mamba2",
        hidden_size=64,
        num_hidden_layers=2,
        state_size=16,
        conv_kernel=4,
        expand=2,
        num_heads=8,
        head_dim=16,
        n_groups=2,
        vocab_size=256,
    ),
    "nemotron_h": _plain(
        "NemotronHForCausalLM",
        "nemotron_h",
        hybrid_override_pattern="M*-E",
        mamba_num_heads=8,
        mamba_head_dim=16,
        ssm_state_size=16,
        conv_kernel=4,
        n_groups=2,
        n_routed_experts=4,
        **EXPERTS,
    ),
    "qwen3_5": _model(
        "Qwen3_5MoeForConditionalGeneration",
        "qwen3_5_moe",
        text_config={
            **BASE,
            **EXPERTS,
            "model_type": "qwen3_5_moe_text",
            "num_experts": 8,
            "layer_types": LAYERS,
            "linear_num_value_heads": 8,
            "linear_num_key_heads": 4,
            "linear_key_head_dim": 16,
            "linear_value_head_dim": 16,
            "linear_conv_kernel_dim": 4,
            "quantization_config": PACKED,
        },
        vision_config={"hidden_size": 32, "patch_size": 16, "spatial_merge_size": 2},
    ),
    "llama4": _model(
        "Llama4ForConditionalGeneration",
        "llama4",
        text_config={
            **BASE,
            "model_type": "llama4_text",
            "attention_chunk_size": 64,
            "no_rope_layers": [1, 1, 1, 0],
            "num_local_experts": 4,
            "num_experts_per_tok": 1,
            "interleave_moe_layer_step": 2,
            "intermediate_size_mlp": 256,
        },
        vision_config={"hidden_size": 32},
    ),
    "gpt_oss": _plain(
        "GptOssForCausalLM",
        "gpt_oss",
        num_local_experts=4,
        num_experts_per_tok=2,
        sliding_window=64,
        layer_types=["sliding_attention", "full_attention"] * 2,
        quantization_config={"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]},
    ),
    "phi3": _plain(
        "Phi3ForCausalLM",
        "phi3",
        original_max_position_embeddings=1024,
        rope_scaling={"type": "longrope", "short_factor": [1.0] * 8, "long_factor": [2.0] * 8},
        sliding_window=2047,
        auto_map={"AutoConfig": "configuration_phi3.Phi3Config"},
    ),
    "kimi_linear": _plain(
        "KimiLinearForCausalLM",
        "kimi_linear",
        **MLA,
        num_experts=8,
        linear_attn_config={
            "full_attn_layers": [4],
            "kda_layers": [1, 2, 3],
            "num_heads": 4,
            "head_dim": 16,
            "short_conv_kernel_size": 4,
        },
    ),
    "nemotron_nas": _plain(
        "DeciLMForCausalLM",
        "nemotron-nas",
        num_key_value_heads=None,
        block_configs=[
            {"attention": {"n_heads_in_group": 2, "no_op": False}, "ffn": {"ffn_mult": 2.0, "no_op": False}},
            {"attention": {"n_heads_in_group": None, "no_op": True}, "ffn": {"ffn_mult": 1.0, "no_op": False}},
        ]
        * 2,
    ),
    "minimax": _plain(
        "MiniMaxM2ForCausalLM",
        "minimax_m2",
        attn_type_list=[0, 1, 0, 1],
        num_local_experts=4,
        num_experts_per_tok=2,
        quantization_config=MIXED,
    ),
    "opt": _model(
        "OPTForCausalLM",
        "opt",
        hidden_size=64,
        ffn_dim=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        word_embed_proj_dim=64,
        max_position_embeddings=128,
        vocab_size=256,
        do_layer_norm_before=True,
    ),
    "bart": _model(
        "BartForConditionalGeneration",
        "bart",
        d_model=64,
        encoder_layers=2,
        decoder_layers=2,
        decoder_attention_heads=4,
        is_encoder_decoder=True,
        vocab_size=256,
        max_position_embeddings=128,
    ),
}
"""Name → config.json."""

GENERATION = {"eos_token_id": [1, 2], "bos_token_id": 0, "pad_token_id": 3, "temperature": 0.6, "do_sample": True}
TOKENIZER_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "<s>",
    "eos_token": {"content": "</s>", "special": True},
    "padding_side": "left",
    "model_max_length": 4096,
    "added_tokens_decoder": {"0": {"content": "<s>", "special": True}, "1": {"content": "</s>", "special": True}},
    "chat_template": "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}",
    "auto_map": {"AutoTokenizer": ["tok.Slow", None]},
}
TOKENIZER = {
    "version": "1.0",
    "added_tokens": [{"id": 0, "content": "<s>", "special": True}, {"id": 1, "content": "</s>", "special": True}],
    "model": {"type": "BPE", "vocab": {"<s>": 0, "</s>": 1, "a": 2, "b": 3}, "merges": ["a b"], "byte_fallback": False},
    "decoder": {"type": "ByteLevel"},
    "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}]},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}]},
}
HF_QUANT = {
    "producer": {"name": "modelopt", "version": "0.44.0"},
    "quantization": {
        "quant_algo": "NVFP4",
        "kv_cache_quant_algo": "FP8",
        "group_size": 16,
        "exclude_modules": ["lm_head", "model.layers.0*"],
        "quantized_layers": {"model.layers.1.mlp": {"quant_algo": "W4A16_NVFP4", "group_size": 16}},
    },
}
SPECIAL_TOKENS = {
    "bos_token": "<s>",
    "eos_token": {"content": "</s>"},
    "additional_special_tokens": ["<x>", {"content": "y"}],
}
SIDE_FILES: dict[str, dict[str, Any]] = {
    "generation_config.json": GENERATION,
    "tokenizer_config.json": TOKENIZER_CONFIG,
    "tokenizer.json": TOKENIZER,
    "hf_quant_config.json": HF_QUANT,
    "special_tokens_map.json": SPECIAL_TOKENS,
    "processor_config.json": {"image_seq_length": 256, "image_processor": {"size": {"height": 224, "width": 224}}},
    "preprocessor_config.json": {"size": {"shortest_edge": 3136, "longest_edge": 12845056}, "patch_size": 14},
}
"""What may lie beside it."""
