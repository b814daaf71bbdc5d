"""Every size of a checkpoint becomes small, every other setting stays."""

from typing import Any

from autoadapter.probe.workers.clone.shrink import shrink

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "vocab_size": 128256,
    "bos_token_id": 128000,
    "eos_token_id": [128001, 128009],
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5,
    "residual_multiplier": 0.22,
    "rope_parameters": {
        "rope_type": "llama3",
        "rope_theta": 5e5,
        "factor": 8.0,
        "original_max_position_embeddings": 8192,
    },
}


def small(**keys: Any) -> dict[str, Any]:
    return shrink({**LLAMA, **keys})[0]


def test_sizes_are_small_and_settings_stay() -> None:
    """Multipliers and rotary settings are the checkpoint's."""
    made = small()
    assert (made["hidden_size"], made["num_attention_heads"], made["num_key_value_heads"]) == (128, 4, 2)
    assert (made["intermediate_size"], made["head_dim"], made["vocab_size"]) == (96, 32, 176)
    assert made["residual_multiplier"] == 0.22
    assert made["rope_parameters"]["factor"] == 8.0
    assert (made["bos_token_id"], made["eos_token_id"]) == (0, [1, 2])


def test_epsilons_and_bounds_are_met() -> None:
    """Large enough to show, each key with its own."""
    made = small(layer_norm_eps=1e-5, attn_logit_softcapping=50.0, clip_qkv=8.0, sliding_window=4096)
    assert 1e-4 < made["rms_norm_eps"] != made["layer_norm_eps"]
    assert (made["attn_logit_softcapping"], made["clip_qkv"], made["sliding_window"]) == (6.0, 1.0, 8)


def test_scaled_positions_lie_within_a_short_prompt() -> None:
    """The ratio of positions with and without scaling is kept."""
    made = small()
    assert made["rope_parameters"]["original_max_position_embeddings"] == 32
    assert made["max_position_embeddings"] == 16 * 32


def test_heads() -> None:
    """All, one, or a group for several; wider than the hidden size where the checkpoint's are."""
    assert small(num_key_value_heads=32)["num_key_value_heads"] == 4
    assert small(num_key_value_heads=1)["num_key_value_heads"] == 1
    wide = small(num_attention_heads=64, swa_num_key_value_heads=16)
    assert wide["num_attention_heads"] * wide["head_dim"] != wide["hidden_size"]
    assert wide["num_key_value_heads"] < wide["swa_num_key_value_heads"] < wide["num_attention_heads"]


def test_heads_of_layers_differ_as_they_did() -> None:
    """A list with one number a layer keeps its order of sizes."""
    made = small(num_attention_heads_per_layer=[32, 64] * 16)
    assert made["num_attention_heads_per_layer"] == [4, 8, 4, 8]


def test_experts() -> None:
    """Groups stay groups, and as many experts are chosen as in the checkpoint, up to four."""
    made = small(n_routed_experts=256, num_experts_per_tok=8, n_group=8, topk_group=4, moe_intermediate_size=2048)
    assert (made["n_routed_experts"], made["num_experts_per_tok"]) == (12, 4)
    assert (made["n_group"], made["topk_group"], made["moe_intermediate_size"]) == (3, 2, 160)
    assert small(num_local_experts=8, num_experts_per_tok=2)["num_experts_per_tok"] == 2


def test_latent_attention() -> None:
    """The sum of the parts of a head stays the sum; keys that repeated the rotary part still do."""
    made = small(kv_lora_rank=512, q_lora_rank=1536, qk_nope_head_dim=128, qk_rope_head_dim=64, head_dim=64)
    assert made["head_dim"] == made["qk_rope_head_dim"]
    sizes = [made[key] for key in ("kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim")]
    assert len({*sizes, made["hidden_size"]}) == 5


def test_state_space() -> None:
    """Heads × head size = expansion × hidden size, where the checkpoint has it so."""
    made = small(mamba_n_heads=128, mamba_d_head=64, mamba_expand=2, mamba_d_ssm=8192)
    assert made["mamba_n_heads"] * made["mamba_d_head"] == 2 * made["hidden_size"] == made["mamba_d_ssm"]


def test_rotary_sections_and_factors() -> None:
    """Sections fill half a head, and there is one factor for each frequency."""
    rope = {"rope_type": "default", "mrope_section": [16, 24, 24]}
    made = small(rope_parameters=rope)
    assert sum(made["rope_parameters"]["mrope_section"]) * 2 == made["head_dim"]
    factors = {"rope_type": "longrope", "short_factor": [1.0] * 64, "long_factor": [float(i) for i in range(64)]}
    made = small(rope_parameters=factors)
    assert len(made["rope_parameters"]["long_factor"]) * 2 == made["head_dim"]
    assert made["rope_parameters"]["long_factor"][-1] == 63.0


def test_what_describes_a_stored_format_is_dropped() -> None:
    """A clone is stored in float32."""
    assert not {"quantization_config", "torch_dtype"} & small(quantization_config={}, torch_dtype="bfloat16").keys()
