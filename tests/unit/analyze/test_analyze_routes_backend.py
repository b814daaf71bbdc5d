"""What vLLM's Transformers backend makes of a model: forced, fallen back to, or not needed."""

from pathlib import Path

import pytest
from pydantic import JsonValue

from autoadapter.analyze import analyze, resolve_model
from autoadapter.analyze.routes import ModelImpl
from autoadapter.artifacts import Route, Verdict
from autoadapter.artifacts.model_profile import RouteDecision
from tests.unit.analyze.analyze_files import write_model

Json = dict[str, JsonValue]
HYBRID: Json = {
    "num_hidden_layers": 4,
    "layer_types": ["linear_attention", "full_attention"] * 2,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_conv_kernel_dim": 4,
}


def verdict(folder: Path, name: str, config: Json, version: str = "0.32.0", *, force: bool = False) -> Verdict:
    names: list[JsonValue] = [name]
    write_model(folder, {"architectures": names, **config})
    ref = resolve_model(str(folder))
    impl: ModelImpl = "transformers" if force else "auto"
    return analyze(ref, vllm_version=version, platform="cuda", model_impl=impl).verdict


def backend(found: Verdict) -> RouteDecision:
    return next(row for row in found.decisions if row.route is Route.TRANSFORMERS)


FORCED: list[tuple[str, Json, str, str]] = [
    ("LlamaForCausalLM", {}, "will_start", "log-probabilities equal"),
    ("GraniteForCausalLM", {"model_type": "granite", "logits_scaling": 8.0}, "starts_but_wrong", "logits_scaling"),
    ("GraniteForCausalLM", {"model_type": "granite", "logits_scaling": 1.0}, "will_start", "does not use it"),
    ("GraniteForCausalLM", {"model_type": "granite"}, "will_start", "does not use it"),
    ("HyperCLOVAXForCausalLM", {"logits_scaling": 0.5}, "starts_but_wrong", "logits_scaling"),
    ("LlamaForCausalLM", {"lm_head_multiplier": 0.03}, "starts_but_wrong", "lm_head_multiplier"),
    ("MiniCPM3ForCausalLM", {"dim_model_base": 4}, "starts_but_wrong", "dim_model_base"),
    ("MiniCPM3ForCausalLM", {}, "starts_but_wrong", "dim_model_base"),
    ("FalconH1ForCausalLM", {"model_type": "falcon_h1"}, "starts_but_wrong", "no state"),
    ("Qwen3NextForCausalLM", {"model_type": "qwen3_next", **HYBRID}, "will_not_start", "do not dispatch"),
    ("MambaForCausalLM", {"model_type": "mamba", "state_size": 16}, "will_not_start", "position_ids"),
    ("DeepseekV32ForCausalLM", {"kv_lora_rank": 512, "index_topk": 2048}, "will_not_start", "indexer"),
    ("LagunaForCausalLM", {"num_attention_heads_per_layer": [4, 8]}, "will_not_start", "number of heads"),
    ("LlamaForCausalLM", {"num_attention_heads_per_layer": [4, 4]}, "will_start", "log-probabilities"),
    ("LlamaForCausalLM", {"v_head_dim": 32}, "will_not_start", "another width"),
    ("DeepseekV3ForCausalLM", {"kv_lora_rank": 8, "v_head_dim": 32}, "will_start", "log-probabilities"),
    ("GPTJForCausalLM", {}, "will_not_start", "does not dispatch attention"),
    ("Llama4ForCausalLM", {}, "will_not_start", "more than one tensor"),
    ("MiniMaxM2ForCausalLM", {}, "will_not_start", "experts per token"),
]


@pytest.mark.parametrize(("name", "config", "outcome", "word"), FORCED)
def test_forced(tmp_path: Path, name: str, config: Json, outcome: str, word: str) -> None:
    found = verdict(tmp_path / "m", name, config, force=True)
    assert (found.outcome, word in found.reason) == (outcome, True), found.reason
    assert found.route is (Route.TRANSFORMERS if outcome == "will_start" else Route.UNSUPPORTED)
    assert [row.source for row in found.decisions if row.taken]


@pytest.mark.parametrize(("name", "config", "outcome", "word"), FORCED)
def test_not_forced_the_native_class_is_taken_and_the_backend_is_told_of(
    tmp_path: Path, name: str, config: Json, outcome: str, word: str
) -> None:
    found = verdict(tmp_path / "m", name, config)
    assert (found.outcome, found.route) == ("will_start", Route.NATIVE)
    said = {"will_start": "would serve it", "starts_but_wrong": "answer wrongly", "will_not_start": "would not start"}
    told = backend(found)
    assert not told.taken and said[outcome] in told.reason and word in told.reason


FALLBACK: list[tuple[str, Json, str]] = [
    ("HeliumForCausalLM", {}, "will_start"),
    ("Dots1ForCausalLM", {}, "will_start"),
    ("DogeForCausalLM", {}, "starts_but_wrong"),
    ("JetMoeForCausalLM", {}, "starts_but_wrong"),
    ("MoshiForCausalLM", {"model_type": "moshi", "sliding_window": 3000}, "starts_but_wrong"),
    ("ZayaForCausalLM", {"model_type": "zaya"}, "starts_but_wrong"),
    ("BambaForCausalLM", {}, "will_start"),
    ("ZambaForCausalLM", {}, "will_not_start"),
    ("RobertaForCausalLM", {}, "will_not_start"),
    ("BartForCausalLM", {}, "will_start"),
    ("DiffLlamaForCausalLM", {}, "will_not_start"),
    ("GPTNeoForCausalLM", {}, "will_start"),
    ("CohereCompassForCausalLM", {}, "will_not_start"),
    ("FuyuForCausalLM", {}, "unprovable_here"),
]


@pytest.mark.parametrize(("name", "config", "outcome"), FALLBACK)
def test_fallback(tmp_path: Path, name: str, config: Json, outcome: str) -> None:
    assert verdict(tmp_path / "m", name, config).outcome == outcome


def test_a_class_that_the_registry_names_for_the_backend_is_not_trusted_blindly(tmp_path: Path) -> None:
    found = verdict(tmp_path / "m", "Olmo3ForCausalLM", {"logits_scaling": 2.0})
    assert (found.outcome, found.route) == ("will_start", Route.GENERATED)
    assert not backend(found).taken and "answers wrongly" in backend(found).reason


def test_older_backends_knew_less(tmp_path: Path) -> None:
    softcap: Json = {"final_logit_softcapping": 30.0}
    assert verdict(tmp_path / "a", "Gemma2ForCausalLM", softcap, "0.27.1", force=True).outcome == "starts_but_wrong"
    assert verdict(tmp_path / "a", "Gemma2ForCausalLM", softcap, "0.28.0", force=True).outcome == "will_start"
    uneven: Json = {"head_dim": 64, "global_head_dim": 128}
    assert verdict(tmp_path / "b", "Gemma4ForCausalLM", uneven, "0.27.0", force=True).outcome == "will_not_start"
    assert verdict(tmp_path / "b", "Gemma4ForCausalLM", uneven, "0.28.0", force=True).outcome == "will_start"


def test_code_of_the_checkpoint_is_unproven(tmp_path: Path) -> None:
    config: Json = {"auto_map": {"AutoModelForCausalLM": "modeling_mine.MineForCausalLM"}, "model_type": "mine"}
    found = verdict(tmp_path / "m", "MineForCausalLM", config)
    assert (found.outcome, found.route) == ("unprovable_here", Route.UNSUPPORTED)
    assert "auto_map" in found.reason
    assert verdict(tmp_path / "m", "MineForCausalLM", {"model_type": "mine"}).outcome == "will_not_start"


def test_code_of_the_checkpoint_with_recurrent_layers_must_run_to_be_understood(tmp_path: Path) -> None:
    config: Json = {"auto_map": {"AutoModelForCausalLM": "modeling_mine.MineForCausalLM"}, **HYBRID}
    found = verdict(tmp_path / "m", "MineForCausalLM", config)
    assert found.outcome == "unprovable_here"
    assert found.hint is not None
    assert found.hint.endswith("--trust-remote-code")


def test_nested_language_model_decides(tmp_path: Path) -> None:
    config: Json = {"text_config": {"model_type": "granite", "hidden_size": 8, "logits_scaling": 16.0}}
    found = verdict(tmp_path / "m", "LlamaForCausalLM", config, force=True)
    assert found.outcome == "starts_but_wrong"
