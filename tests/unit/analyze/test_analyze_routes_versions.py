"""What depends on the release of vLLM: too old, dropped, other names, methods that went, known issues."""

import json
from pathlib import Path
from typing import Literal

import pytest
from pydantic import JsonValue

from autoadapter.analyze import analyze, resolve_model
from autoadapter.artifacts import Finding, Level, ModelProfile, Route
from autoadapter.engine.registry import known_issues
from autoadapter.errors import UserError
from tests.unit.analyze.analyze_files import LLAMA_SHAPES, safetensors_bytes, write_model

Json = dict[str, JsonValue]


def profile(
    folder: Path, config: Json, version: str, platform: Literal["cpu", "cuda"] = "cuda", tokenizer: Json | None = None
) -> ModelProfile:
    shapes = dict(LLAMA_SHAPES)
    if config.get("tie_word_embeddings"):
        del shapes["lm_head.weight"]
    files = {"model.safetensors": safetensors_bytes(shapes)}
    if tokenizer is not None:
        files["tokenizer_config.json"] = json.dumps(tokenizer).encode()
    write_model(folder, config, files)
    return analyze(resolve_model(str(folder)), vllm_version=version, platform=platform)


def issues(found: ModelProfile) -> dict[str, Finding]:
    return {finding.code: finding for finding in found.findings if finding.code.startswith("issue.")}


def test_too_old(tmp_path: Path) -> None:
    old = profile(tmp_path / "m", {"architectures": ["HYV4ForCausalLM"]}, "0.28.0").verdict
    assert "vLLM 0.28.0 is too old for HYV4ForCausalLM: it needs vLLM 0.29.0 or newer." in old.reason
    assert old.decisions[0].source == (
        'vLLM 0.29.0 model_executor/models/registry.py: _TEXT_GENERATION_MODELS["HYV4ForCausalLM"]'
    )
    new = profile(tmp_path / "m", {"architectures": ["HYV4ForCausalLM"]}, "0.29.0").verdict
    assert (new.outcome, new.route) == ("will_start", Route.NATIVE)


def test_dropped_names_the_release_to_plan_for(tmp_path: Path) -> None:
    gone = profile(tmp_path / "m", {"architectures": ["OuroForCausalLM"]}, "0.33.0").verdict
    assert gone.outcome == "will_not_start"
    assert "vLLM served OuroForCausalLM until 0.26.0 and dropped it after. --vllm-version 0.26.0" in gone.reason
    assert profile(tmp_path / "m", {"architectures": ["OuroForCausalLM"]}, "0.26.0").verdict.route is Route.NATIVE


def test_native_in_one_release_and_on_the_backend_in_the_next(tmp_path: Path) -> None:
    config: Json = {"architectures": ["PhiForCausalLM"]}
    routes = [profile(tmp_path / "m", config, version).verdict.route for version in ("0.31.0", "0.32.0")]
    assert routes == [Route.NATIVE, Route.TRANSFORMERS]


@pytest.mark.parametrize(
    ("name", "version", "other"),
    [
        ("MiniMaxM3VLForCausalLM", "0.32.0", "MiniMaxM3SparseForCausalLM"),
        ("LightOnOcrForConditionalGeneration", "0.32.0", "LightOnOCRForConditionalGeneration"),
        ("ExaoneMoEForCausalLM", "0.28.0", "ExaoneMoeForCausalLM"),
        ("Kimi_K25ForConditionalGeneration", "0.32.0", "KimiK25ForConditionalGeneration"),
        ("MiniMaxM3ForCausalLM", "0.32.0", "MiniMaxM3SparseForCausalLM"),
        ("Step3p7FlashForCausalLM", "0.32.0", "Step3p7ForConditionalGeneration"),
    ],
)
def test_other_names(tmp_path: Path, name: str, version: str, other: str) -> None:
    found = profile(tmp_path / "m", {"architectures": [name]}, version).verdict
    alias = next(row for row in found.decisions if row.route is Route.ALIAS)
    assert f"vLLM serves the family as {other} " in alias.reason and f'"architectures": ["{other}"]' in alias.reason
    assert found.outcome != "will_start" and alias.reason in found.reason


def test_a_measurement_of_another_release_says_so(tmp_path: Path) -> None:
    config: Json = {"architectures": ["HeliumForCausalLM"]}
    there, elsewhere = (profile(tmp_path / "m", config, version).verdict for version in ("0.32.0", "0.26.0"))
    assert "not on this release" not in there.reason
    assert elsewhere.outcome == "will_start" and "(measured on vLLM 0.32.0, not on this release)" in elsewhere.reason


@pytest.mark.parametrize("name", ["GPTNeoForCausalLM", "ZambaForCausalLM", "GPTNeoXJapaneseForCausalLM"])
def test_a_likeness_of_names_is_no_alias(tmp_path: Path, name: str) -> None:
    found = profile(tmp_path / "m", {"architectures": [name]}, "0.32.0").verdict
    alias = next(row for row in found.decisions if row.route is Route.ALIAS)
    assert alias.reason.startswith("No native class is known")


def test_the_last_decision_carries_the_proof(tmp_path: Path) -> None:
    for name in ("LlamaForCausalLM", "DogeForCausalLM", "NobodyKnowsForCausalLM", "BertModel"):
        found = profile(tmp_path / "m", {"architectures": [name]}, "0.32.0").verdict
        taken = [row for row in found.decisions if row.taken]
        assert len(taken) == 1 and taken[0].source


def test_a_version_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'latest' is not a version of vLLM"):
        profile(tmp_path / "m", {}, "latest")


def test_a_quantization_method_that_went(tmp_path: Path) -> None:
    config: Json = {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}
    assert "issue.quantization-gone" not in issues(profile(tmp_path / "m", config, "0.27.1"))
    gone = issues(profile(tmp_path / "m", config, "0.28.0"))["issue.quantization-gone"]
    assert gone.level is Level.BLOCKER
    assert gone.message == "vLLM 0.28.0 has no quantization method 'bitsandbytes'; 0.27.1 was the last that had it."


def test_a_quantization_method_that_never_was(tmp_path: Path) -> None:
    config: Json = {"quantization_config": {"quant_method": "exl2", "bits": 4}}
    assert issues(profile(tmp_path / "m", config, "0.32.0"))["issue.quantization-gone"].message == (
        "vLLM 0.32.0 has no quantization method 'exl2'."
    )


def test_a_quantization_method_that_is_deprecated(tmp_path: Path) -> None:
    config: Json = {"quantization_config": {"quant_method": "fbgemm_fp8"}}
    assert "issue.quantization-deprecated" in issues(profile(tmp_path / "m", config, "0.32.0"))


@pytest.mark.parametrize("method", ["awq", "gptq", "fp8", "compressed-tensors", "mxfp4", "modelopt", "auto-round"])
def test_methods_that_vllm_has(tmp_path: Path, method: str) -> None:
    config: Json = {"quantization_config": {"quant_method": method, "bits": 4, "group_size": 128}}
    assert not {"issue.quantization-gone", "issue.quantization-deprecated"} & set(
        issues(profile(tmp_path / "m", config, "0.32.0"))
    )


GEMMA4: Json = {"architectures": ["Gemma4ForCausalLM"], "model_type": "gemma4_text"}
AWQ_GEMMA: Json = {"model_type": "gemma3_text", "quantization_config": {"quant_method": "awq", "bits": 4}}
TIED_MODELOPT: Json = {
    "tie_word_embeddings": True,
    "quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8"},
}
OLD_CODE: Json = {"auto_map": {"AutoConfig": "c.C"}, "transformers_version": "4.44.2", "model_type": "nemotron-nas"}
SAVED_BY_5: Json = {"transformers_version": "5.2.0"}


@pytest.mark.parametrize(
    ("code", "config", "levels"),
    [
        ("gemma4-transformers", GEMMA4, {"0.27.0": "warning", "0.28.0": None}),
        ("modelopt-tied-head", TIED_MODELOPT, {"0.23.0": None, "0.24.0": "warning", "0.25.0": None}),
        ("modelopt-tied-head", TIED_MODELOPT | {"tie_word_embeddings": False}, {"0.24.0": None}),
        ("awq-float16", AWQ_GEMMA, {"0.23.0": "warning", "0.24.0": "info", "0.32.0": "info"}),
        ("awq-float16", AWQ_GEMMA | {"model_type": "llama"}, {"0.23.0": None, "0.32.0": None}),
        ("saved-by-transformers-5", SAVED_BY_5, {"0.18.0": "warning", "0.23.0": "warning", "0.24.0": None}),
        ("saved-by-transformers-5", {"transformers_version": "4.57.1"}, {"0.18.0": None}),
        ("saved-by-transformers-5", {"transformers_version": "main"}, {"0.18.0": None}),
        ("remote-code-of-transformers-4", OLD_CODE, {"0.23.0": None, "0.32.0": "warning"}),
        ("remote-code-of-transformers-4", OLD_CODE | {"auto_map": None}, {"0.32.0": None}),
        ("remote-code-of-transformers-4", OLD_CODE | {"model_type": "llama"}, {"0.32.0": None}),
        ("dtype-spelling", {"torch_dtype": None, "dtype": "bfloat16"}, {"0.11.0": "warning", "0.12.0": None}),
        ("dtype-spelling", {"dtype": "bfloat16"}, {"0.11.0": None}),
        ("float16-refused", {"model_type": "gemma2", "torch_dtype": "float16"}, {"0.32.0": "warning"}),
        ("float16-refused", {"model_type": "llama", "torch_dtype": "float16"}, {"0.32.0": None}),
    ],
)
def test_known_issues_hold_for_their_releases(
    tmp_path: Path, code: str, config: Json, levels: dict[str, str | None]
) -> None:
    for version, level in levels.items():
        found = issues(profile(tmp_path / "m", config, version)).get(f"issue.{code}")
        assert (found.level.value if found else None) == level, version


def test_awq_of_a_family_without_float16_has_no_dtype_on_an_old_cpu_build(tmp_path: Path) -> None:
    found = issues(profile(tmp_path / "m", AWQ_GEMMA, "0.23.0", "cpu"))["issue.awq-float16"]
    assert found.level is Level.BLOCKER and found.message.startswith("No dtype is valid")
    assert found.hint is not None and "compressed-tensors W4A16" in found.hint


@pytest.mark.parametrize(("version", "level"), [("0.15.1", "blocker"), ("0.22.0", "warning"), ("0.24.0", None)])
def test_tokenizer_of_transformers_5(tmp_path: Path, version: str, level: str | None) -> None:
    tokenizer: Json = {"tokenizer_class": "TokenizersBackend"}
    found = issues(profile(tmp_path / "m", {}, version, tokenizer=tokenizer)).get("issue.tokenizer-of-transformers-5")
    assert (found.level.value if found else None) == level
    assert "issue.tokenizer-of-transformers-5" not in issues(profile(tmp_path / "n", {}, version, tokenizer={}))


def test_every_issue_says_what_to_do_and_where_it_was_seen() -> None:
    for issue in known_issues():
        assert issue.remedy and issue.source and issue.code.startswith("issue.")
        assert issue.when.model_dump(exclude_defaults=True), issue.code
