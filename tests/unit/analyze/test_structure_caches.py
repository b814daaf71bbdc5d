"""Caches and states: hand-written sizes of public models → what vLLM 0.32 allocates for one layer."""

from pathlib import Path

import pytest
from pydantic import JsonValue

from autoadapter.analyze.structure.caches import bytes_per_token
from autoadapter.artifacts import CacheEntry, LayerGroup
from tests.unit.analyze.structure_files import (
    DEEPSEEK_V2_LITE,
    DEEPSEEK_V3,
    GEMMA4_26B,
    GPT_OSS_20B,
    NEMOTRON_NANO,
    QWEN35_27B,
    Json,
    mistral,
    profile_of,
    structure_of,
)

Row = tuple[str, int, int, int, int | None, str, int]
LATENT: Row = ("mla", 1, 576, 0, None, "cache", 1)
DSA = DEEPSEEK_V3 | {"model_type": "deepseek_v32", "index_head_dim": 128, "index_n_heads": 64, "index_topk": 2048}
DEEPSEEK_V4 = mistral(
    model_type="deepseek_v4", num_hidden_layers=3, num_attention_heads=64, num_key_value_heads=1, head_dim=512,
    q_lora_rank=1024, o_lora_rank=1024, o_groups=8, qk_rope_head_dim=64, index_head_dim=128, index_n_heads=64,
    sliding_window=128, compress_ratios=[0, 4, 128, 0], n_routed_experts=256, n_shared_experts=1,
    num_experts_per_tok=6, moe_intermediate_size=2048, hc_mult=4,
)  # fmt: skip


def rows(group: LayerGroup) -> list[Row]:
    return [
        (one.kind, one.kv_heads, one.key_dim, one.value_dim, one.window, one.dtype, one.tokens_per_entry)
        for one in group.caches
    ]


def layer(groups: tuple[LayerGroup, ...], number: int) -> LayerGroup:
    return next(group for group in groups if number in group.layers)


CASES: list[tuple[str, Json, dict[int, list[Row]]]] = [
    ("llama", mistral(), {0: [("full_attention", 8, 128, 128, None, "cache", 1)]}),
    (
        "gpt-oss: windows and full layers in turn",
        GPT_OSS_20B,
        {
            0: [("sliding_attention", 8, 64, 64, 128, "cache", 1)],
            23: [("full_attention", 8, 64, 64, None, "cache", 1)],
        },
    ),
    (
        "gemma-4: full layers have wider and fewer heads",
        GEMMA4_26B,
        {
            0: [("sliding_attention", 8, 256, 256, 1024, "cache", 1)],
            5: [("full_attention", 2, 512, 512, None, "cache", 1)],
        },
    ),
    (
        "mimo-v2: keys wider than values, sliding layers with heads of their own",
        mistral(
            model_type="mimo_v2_flash",
            num_hidden_layers=2,
            num_attention_heads=64,
            num_key_value_heads=4,
            head_dim=192,
            v_head_dim=128,
            sliding_window=128,
            swa_num_key_value_heads=8,
            swa_head_dim=192,
            swa_v_head_dim=128,
            hybrid_layer_pattern=[0, 1],
        ),
        {
            0: [("full_attention", 4, 192, 128, None, "cache", 1)],
            1: [("sliding_attention", 8, 192, 128, 128, "cache", 1)],
        },
    ),
    (
        "step-3.5: sliding layers in attention_other_setting",
        mistral(
            model_type="step3p5",
            num_hidden_layers=2,
            num_attention_groups=8,
            num_key_value_heads=None,
            head_dim=128,
            sliding_window=512,
            layer_types=["full_attention", "sliding_attention"],
            attention_other_setting={"num_attention_heads": 96, "num_attention_groups": 4, "head_dim": 64},
        ),
        {
            0: [("full_attention", 8, 128, 128, None, "cache", 1)],
            1: [("sliding_attention", 4, 64, 64, 512, "cache", 1)],
        },
    ),
    (
        "llama 4: chunks but in every fourth layer",
        mistral(model_type="llama4_text", num_hidden_layers=4, attention_chunk_size=8192, head_dim=128),
        {
            0: [("chunked_attention", 8, 128, 128, 8192, "cache", 1)],
            3: [("full_attention", 8, 128, 128, None, "cache", 1)],
        },
    ),
    ("deepseek-v2-lite", DEEPSEEK_V2_LITE, {0: [LATENT], 26: [LATENT]}),
    (
        "minicpm3: latent projections, cached as plain heads",
        DEEPSEEK_V2_LITE | {"model_type": "minicpm3", "qk_nope_head_dim": 64, "qk_rope_head_dim": 32},
        {0: [("full_attention", 16, 96, 96, None, "cache", 1)]},
    ),
    (
        "deepseek-v3.2: index keys of 8 bits with a 32-bit scale",
        DSA,
        {0: [LATENT, ("indexer", 1, 132, 0, None, "uint8", 1)]},
    ),
    (
        "glm-5.2: every fourth layer chooses for those behind it",
        DSA | {"model_type": "glm_moe_dsa", "index_topk_freq": 4, "index_skip_topk_offset": 3},
        {
            2: [LATENT, ("indexer", 1, 132, 0, None, "uint8", 1)],
            3: [LATENT],
            5: [LATENT],
            6: [LATENT, ("indexer", 1, 132, 0, None, "uint8", 1)],
        },
    ),
    (
        "deepseek-v4: a window, one entry for several tokens, and the compressors' sums",
        DEEPSEEK_V4,
        {
            0: [("mla", 1, 512, 0, 128, "cache", 1)],
            1: [
                ("mla", 1, 512, 0, 128, "cache", 1),
                ("mla", 1, 512, 0, None, "cache", 4),
                ("mla", 1, 2048, 0, 8, "float32", 1),
                ("indexer", 1, 132, 0, None, "uint8", 4),
                ("indexer", 1, 512, 0, 8, "float32", 1),
            ],
            2: [
                ("mla", 1, 512, 0, 128, "cache", 1),
                ("mla", 1, 512, 0, None, "cache", 128),
                ("mla", 1, 1024, 0, 128, "float32", 1),
            ],
        },
    ),
    (
        "minimax-m3: index keys of 16 bits in marked layers",
        mistral(
            model_type="minimax_m3",
            num_hidden_layers=2,
            head_dim=128,
            sparse_attention_config={
                "sparse_attention_freq": [0, 1],
                "sparse_index_dim": 128,
                "sparse_num_index_heads": 4,
            },
        ),
        {
            0: [("full_attention", 8, 128, 128, None, "cache", 1)],
            1: [
                ("full_attention", 8, 128, 128, None, "cache", 1),
                ("indexer", 1, 128, 0, None, "bfloat16", 1),
            ],
        },
    ),
    (
        "gemma-3n: the last layers read what earlier ones keep",
        mistral(
            model_type="gemma3n_text",
            num_hidden_layers=5,
            num_kv_shared_layers=2,
            num_key_value_heads=2,
            head_dim=256,
            sliding_window=512,
        ),
        {
            2: [("sliding_attention", 2, 256, 256, 512, "cache", 1)],
            3: [],
            4: [],
        },
    ),
    (
        "openelm: heads layer by layer",
        mistral(num_hidden_layers=2, num_attention_heads=[12, 16], num_key_value_heads=[3, 4], head_dim=64),
        {0: [("full_attention", 3, 64, 64, None, "cache", 1)], 1: [("full_attention", 4, 64, 64, None, "cache", 1)]},
    ),
    (
        "nemotron-nas: some blocks do not attend",
        mistral(
            num_hidden_layers=2,
            num_key_value_heads=None,
            block_configs=[
                {"attention": {"n_heads_in_group": 8}, "ffn": {"ffn_mult": 2.625}},
                {"attention": {"no_op": True, "n_heads_in_group": None}, "ffn": {"no_op": True}},
            ],
        ),
        {0: [("full_attention", 4, 128, 128, None, "cache", 1)], 1: []},
    ),
    (
        "recurrent layers keep nothing of a token",
        NEMOTRON_NANO,
        {0: [], 1: [], 5: [("full_attention", 2, 128, 128, None, "cache", 1)]},
    ),
    ("bert reads a text at once", mistral(model_type="bert", num_key_value_heads=None), {0: []}),
]  # fmt: skip


@pytest.mark.parametrize(("config", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_caches_of_a_layer(tmp_path: Path, config: Json, expected: dict[int, list[Row]]) -> None:
    groups = structure_of(tmp_path, config).groups
    assert {number: rows(layer(groups, number)) for number in expected} == expected


@pytest.mark.parametrize("config", [case[1] for case in CASES], ids=[case[0] for case in CASES])
def test_every_layer_is_in_one_group_and_the_sum_is_the_profile_s(tmp_path: Path, config: Json) -> None:
    found = profile_of(tmp_path, config)
    groups = found.structure.groups
    assert sorted(number for group in groups for number in group.layers) == list(range(found.attention.num_layers))
    assert all(list(group.layers) == sorted(group.layers) for group in groups)
    entries = [entry for group in groups for entry in group.caches for _ in group.layers]
    assert found.memory.kv_bytes_per_token == bytes_per_token(entries)
    assert found.memory.kv_window_bytes_per_token == bytes_per_token(entries, windowed_only=True)


def test_bytes_follow_type_and_sharing() -> None:
    sizes = {"kv_heads": 1, "value_dim": 0}
    latent = CacheEntry.model_validate({"kind": "mla", "key_dim": 576} | sizes)
    keys = CacheEntry.model_validate({"kind": "indexer", "key_dim": 132, "dtype": "uint8"} | sizes)
    shared = CacheEntry.model_validate({"kind": "mla", "key_dim": 512, "tokens_per_entry": 4} | sizes)
    window = CacheEntry.model_validate({"kind": "mla", "key_dim": 4, "dtype": "float32", "window": 8} | sizes)
    assert [bytes_per_token([one]) for one in (latent, keys, shared, window)] == [1152, 132, 256, 16]
    assert bytes_per_token([latent, window], windowed_only=True) == 16
    assert bytes_per_token([shared.model_copy(update={"tokens_per_entry": 3})] * 3) == 1024


def zamba2() -> Json:
    return mistral(
        model_type="zamba2", num_hidden_layers=3, layers_block_type=["mamba", "hybrid", "hybrid"], num_mem_blocks=1,
        attention_head_dim=256, num_key_value_heads=32, n_mamba_heads=128, mamba_headdim=64, mamba_ngroups=2,
        mamba_d_state=64, mamba_d_conv=4, adapter_rank=128,
    )  # fmt: skip


State = tuple[str, int, int, int, str]
STATES: list[tuple[str, Json, int, list[State]]] = [
    (
        "nemotron-h: 32-bit recurrence unless the config says otherwise",
        NEMOTRON_NANO,
        0,
        [("conv", 64 * 64 * 3, 8, 2 * 128 * 3, "bfloat16"), ("ssm", 64 * 64 * 128, 0, 0, "float32")],
    ),
    (
        "nemotron-h says otherwise",
        NEMOTRON_NANO | {"mamba_ssm_cache_dtype": "bfloat16"},
        0,
        [("conv", 64 * 64 * 3, 8, 2 * 128 * 3, "bfloat16"), ("ssm", 64 * 64 * 128, 0, 0, "bfloat16")],
    ),
    (
        "qwen3.5",
        QWEN35_27B,
        0,
        [
            ("conv", (2 * 16 * 128 + 48 * 128) * 3, 0, 0, "bfloat16"),
            ("ssm", 48 * 128 * 128, 0, 0, "float32"),
        ],
    ),
    (
        "falcon-h1: side by side with attention, everything as the model",
        mistral(
            model_type="falcon_h1", num_hidden_layers=1, mamba_n_heads=24, mamba_d_head=64, mamba_d_ssm=1536,
            mamba_n_groups=1, mamba_d_state=128, mamba_d_conv=4, torch_dtype="float16",
        ),
        0,
        [("conv", 1536 * 3, 1, 2 * 128 * 3, "float16"), ("ssm", 24 * 64 * 128, 0, 0, "float16")],
    ),
    (
        "kimi: delta attention, 32-bit recurrence",
        DEEPSEEK_V2_LITE
        | {
            "model_type": "kimi_linear",
            "linear_attn_config": {
                "full_attn_layers": [4], "kda_layers": [1, 2, 3], "num_heads": 32, "head_dim": 128,
                "short_conv_kernel_size": 4,
            },
        },
        0,
        [("conv", 3 * 32 * 128 * 3, 0, 0, "bfloat16"), ("ssm", 32 * 128 * 128, 0, 0, "float32")],
    ),
    (
        "lfm2: short convolutions",
        mistral(model_type="lfm2", num_hidden_layers=1, layer_types=["conv"], conv_L_cache=3),
        0,
        [("conv", 4096 * 2, 0, 0, "bfloat16")],
    ),
    (
        "mamba: its own width comes first",
        mistral(model_type="mamba", state_size=16, intermediate_size=8192, conv_kernel=4, expand=3),
        0,
        [("conv", 8192 * 3, 0, 0, "bfloat16"), ("ssm", 8192 * 16, 0, 0, "bfloat16")],
    ),
    (
        "jamba",
        mistral(
            model_type="jamba", num_hidden_layers=8, attn_layer_period=8, attn_layer_offset=4, mamba_d_state=16,
            mamba_d_conv=4, mamba_expand=2,
        ),
        0,
        [("conv", 8192 * 3, 0, 0, "bfloat16"), ("ssm", 8192 * 16, 0, 0, "bfloat16")],
    ),
    (
        "lightning attention",
        mistral(model_type="bailing_moe_linear", layer_group_size=8, num_hidden_layers=8, head_dim=128),
        0,
        [("ssm", 32 * 128 * 128, 0, 0, "bfloat16")],
    ),
    (
        "recurrent gemma",
        mistral(
            model_type="recurrent_gemma", num_hidden_layers=3, block_types=["recurrent", "recurrent", "attention"],
            lru_width=2560, conv1d_width=4, sliding_window=2048, attention_window_size=2048,
        ),
        0,
        [("conv", 2560 * 3, 0, 0, "bfloat16"), ("ssm", 2560, 0, 0, "float32")],
    ),
    (
        "zamba2",
        zamba2(),
        1,
        [("conv", 128 * 64 * 3, 2, 2 * 64 * 3, "bfloat16"), ("ssm", 128 * 64 * 64, 0, 0, "bfloat16")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("config", "number", "expected"), [case[1:] for case in STATES], ids=[case[0] for case in STATES]
)
def test_states_of_a_layer(tmp_path: Path, config: Json, number: int, expected: list[State]) -> None:
    found = profile_of(tmp_path, config)
    states = layer(found.structure.groups, number).states
    assert [(one.name, one.elements, one.groups, one.elements_per_group, one.dtype) for one in states] == expected
    wide = {"float32": 4, "bfloat16": 2, "float16": 2}
    total = sum(
        len(group.layers) * (one.elements + one.groups * one.elements_per_group) * wide[one.dtype]
        for group in found.structure.groups
        for one in group.states
    )
    assert found.state is not None
    assert found.memory.state_bytes_per_request == found.state.bytes_per_request == total > 0


KINDS: list[tuple[str, dict[str, JsonValue], str]] = [
    ("first ones dense", {"n_routed_experts": 8, "first_k_dense_replace": 2}, "ddmm"),
    ("every second", {"num_experts": 8, "decoder_sparse_step": 2}, "dmdm"),
    ("every second, one named dense", {"num_experts": 8, "decoder_sparse_step": 2, "mlp_only_layers": [1]}, "dddm"),
    ("flags", {"n_routed_experts": 8, "moe_layer_freq": [0, 1, 1, 0]}, "dmmd"),
    ("words", {"num_experts": 8, "mlp_layer_types": ["dense", "sparse", "dense", "sparse"]}, "dmdm"),
    ("llama 4", {"num_local_experts": 8, "interleave_moe_layer_step": 2}, "dmdm"),
    ("jamba", {"num_experts": 8, "expert_layer_period": 2, "expert_layer_offset": 1}, "dmdm"),
    (
        "ernie",
        {"moe_num_experts": 8, "moe_layer_start_index": 1, "moe_layer_interval": 1, "moe_layer_end_index": -1},
        "dmmm",
    ),
    ("ernie ends early", {"moe_num_experts": 8, "moe_layer_start_index": 1, "moe_layer_end_index": 2}, "dmmd"),
    ("step", {"num_experts": 8, "moe_layers_enum": "1,3"}, "dmdm"),
    ("no experts after all", {"num_local_experts": 0, "decoder_sparse_step": 1}, "dddd"),
    ("nemotron-h", {"model_type": "nemotron_h", "n_routed_experts": 8, "hybrid_override_pattern": "M-*E"}, "-d-m"),
    ("removed blocks", {"block_configs": [{"ffn": {"no_op": True}}, {"ffn": {"ffn_mult": 1.0}}] * 2}, "-d-d"),
]  # fmt: skip


@pytest.mark.parametrize(("config", "expected"), [case[1:] for case in KINDS], ids=[case[0] for case in KINDS])
def test_what_follows_the_mixer(tmp_path: Path, config: Json, expected: str) -> None:
    found = profile_of(tmp_path, mistral(num_hidden_layers=4) | config)
    letters = {"dense": "d", "moe": "m", "none": "-"}
    shape = "".join(letters[layer(found.structure.groups, number).feed_forward] for number in range(4))
    assert shape == expected
    assert found.moe is None or found.moe.num_dense_layers == expected.count("d")
