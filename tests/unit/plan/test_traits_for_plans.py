"""From a config.json alone to the facts that a plan counts on."""

import json
from pathlib import Path

from autoadapter.analyze import analyze, resolve_model
from autoadapter.artifacts import Level, ModelProfile
from autoadapter.plan import make_plan
from tests.unit.plan.sketches import gpu, smollm2, wish

DENSE = {
    "architectures": ["Gemma3ForCausalLM"],
    "model_type": "gemma3_text",
    "hidden_size": 256,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "intermediate_size": 512,
    "vocab_size": 1024,
    "max_position_embeddings": 8192,
    "sliding_window": 512,
    "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
}


def profile_of(folder: Path, config: dict[str, object]) -> ModelProfile:
    (folder / "config.json").write_text(json.dumps(config))
    return analyze(resolve_model(str(folder)), vllm_version="0.32.0", platform="cuda")


def test_sliding_layers_are_told_apart(tmp_path: Path) -> None:
    memory = profile_of(tmp_path, DENSE).memory
    layer = 2 * 2 * 64 * 2
    assert (memory.kv_bytes_per_token, memory.kv_window_bytes_per_token) == (6 * layer, 5 * layer)


def test_a_compressed_cache_beside_the_window_is_not_freed(tmp_path: Path) -> None:
    config = {key: value for key, value in DENSE.items() if key != "layer_types"} | {"compress_ratios": [0, 4]}
    memory = profile_of(tmp_path, config).memory
    assert 0 < memory.kv_window_bytes_per_token < memory.kv_bytes_per_token


def test_latent_experts_are_read(tmp_path: Path) -> None:
    config = DENSE | {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "moe_latent_size": 32}
    moe = profile_of(tmp_path, config).moe
    assert moe is not None
    assert moe.latent_size == 32


def test_a_config_alone_can_be_planned(tmp_path: Path) -> None:
    plan = make_plan(profile_of(tmp_path, DENSE), wish(gpu("l4"), scheme="as_is"))
    assert {finding.code for finding in plan.findings if finding.level is Level.BLOCKER} == {
        "weights.none",
        "tokenizer.none",
    }


def test_a_family_that_refuses_float16_is_planned_in_bfloat16() -> None:
    memory = smollm2().memory.model_copy(update={"served_dtype": "float16"})
    model = smollm2().model_copy(update={"memory": memory, "model_type": "gemma2"})
    plan = make_plan(model, wish(gpu("h200")))
    assert plan.setting("dtype") == "bfloat16"
    assert make_plan(model.model_copy(update={"model_type": "llama"}), wish(gpu("h200"))).setting("dtype") == "float16"
