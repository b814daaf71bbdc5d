"""The verdict: which route, why, and why not the earlier ones."""

from pathlib import Path
from typing import Literal

import pytest
from pydantic import JsonValue

from autoadapter.analyze import analyze, resolve_model
from autoadapter.artifacts import ModelProfile, Route
from autoadapter.engine.registry import aliases, backend_signals, registry_for
from tests.unit.analyze.analyze_files import gguf_llama, safetensors_bytes, write_model


@pytest.fixture
def profile(tmp_path: Path) -> "Verdicts":
    return Verdicts(tmp_path / "model")


class Verdicts:
    """Profiles of a Llama-shaped checkpoint under another name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(
        self,
        architecture: str | None,
        platform: Literal["cpu", "cuda"] = "cuda",
        config: dict[str, JsonValue] | None = None,
        version: str = "0.32.0",
    ) -> ModelProfile:
        names: JsonValue = None if architecture is None else [architecture]
        write_model(self.folder, {"architectures": names} | (config or {}))
        return analyze(resolve_model(str(self.folder)), vllm_version=version, platform=platform)


def routes(found: ModelProfile) -> list[tuple[Route, bool]]:
    return [(decision.route, decision.taken) for decision in found.verdict.decisions]


@pytest.mark.parametrize("name", ["LlamaForCausalLM", "Qwen3MoeForCausalLM", "Gemma3ForConditionalGeneration"])
def test_native(profile: Verdicts, name: str) -> None:
    verdict = profile(name).verdict
    assert (verdict.outcome, verdict.route) == ("will_start", Route.NATIVE)
    assert verdict.reason == (
        f"vLLM 0.32.0 serves {name} with a model class of its own. These files are not ready for it: tokenizer.none."
    )


def test_files_that_are_ready(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(gguf_llama())
    found = analyze(resolve_model(str(tmp_path / "m.gguf")), vllm_version="0.32.0", platform="cuda")
    assert found.verdict.reason == "vLLM 0.32.0 serves LlamaForCausalLM with a model class of its own."


def test_transformers_backend_by_registry(profile: Verdicts) -> None:
    found = profile("Olmo3ForCausalLM")
    assert (found.verdict.outcome, found.verdict.route) == ("will_start", Route.TRANSFORMERS)
    assert routes(found) == [(Route.NATIVE, False), (Route.ALIAS, False), (Route.TRANSFORMERS, True)]


def test_transformers_backend_by_measurement(profile: Verdicts) -> None:
    found = profile("HeliumForCausalLM")
    assert (found.verdict.outcome, found.verdict.route) == ("will_start", Route.TRANSFORMERS)
    assert "measured on vLLM 0.32.0" in found.verdict.decisions[-1].source


def test_backend_that_answers_wrongly(profile: Verdicts) -> None:
    verdict = profile("DogeForCausalLM").verdict
    assert (verdict.outcome, verdict.route) == ("starts_but_wrong", Route.UNSUPPORTED)
    assert "answers wrongly" in verdict.reason


def test_alias_is_considered_and_not_taken(profile: Verdicts) -> None:
    found = profile("PhimoeForCausalLM")
    assert (found.verdict.outcome, found.verdict.route) == ("will_not_start", Route.UNSUPPORTED)
    assert "vLLM serves the family as PhiMoEForCausalLM" in found.verdict.reason
    considered = [Route.NATIVE, Route.ALIAS, Route.TRANSFORMERS, Route.SHIM, Route.GENERATED]
    assert routes(found) == [*((route, False) for route in considered), (Route.UNSUPPORTED, True)]
    assert """--hf-overrides '{"architectures": ["PhiMoEForCausalLM"]}'""" in found.verdict.reason


def test_dropped_architecture_names_the_last_version(profile: Verdicts) -> None:
    verdict = profile("BambaForCausalLM").verdict
    assert (verdict.outcome, verdict.route) == ("will_not_start", Route.UNSUPPORTED)
    assert verdict.reason.startswith("vLLM served BambaForCausalLM until 0.23.0 and dropped it after.")


def test_dropped_architecture_on_the_version_that_had_it(profile: Verdicts) -> None:
    found = profile("BambaForCausalLM", version="0.23.0")
    assert (found.verdict.outcome, found.verdict.route) == ("will_start", Route.NATIVE)
    note = next(finding for finding in found.findings if finding.code == "verdict.version")
    assert note.message == (
        "The architectures of vLLM 0.23.0 are judged by the registry of vLLM 0.25.0, "
        "newer, because none that old is known."
    )


def test_absent_architecture(profile: Verdicts) -> None:
    verdict = profile("NobodyKnowsForCausalLM").verdict
    assert verdict.reason == (
        "NobodyKnowsForCausalLM is not in the registry of vLLM 0.32.0. "
        "The Transformers modeling backend does not start it: transformers has no class of that name "
        "(known up to 5.19), and the checkpoint brings no code (auto_map). "
        "It needs model code that AutoAdapter would generate, and this AutoAdapter does not render model code yet."
    )


@pytest.mark.parametrize("name", ["BertModel", "XLMRobertaForSequenceClassification", "RobertaForMaskedLM"])
def test_models_that_do_not_generate(profile: Verdicts, name: str) -> None:
    verdict = profile(name).verdict
    assert (verdict.outcome, verdict.route) == ("will_not_start", Route.UNSUPPORTED)
    assert verdict.reason.startswith(f"{name} does not generate text")


def test_encoder_decoder(profile: Verdicts) -> None:
    verdict = profile("T5ForConditionalGeneration", config={"is_encoder_decoder": True}).verdict
    assert verdict.reason.startswith("T5ForConditionalGeneration is an encoder-decoder model")


def test_plugin_is_named(profile: Verdicts) -> None:
    assert "point to a plugin: https://" in profile("BartForConditionalGeneration").verdict.reason


def test_no_architectures(profile: Verdicts) -> None:
    found = profile(None, config={"language_config": {"architectures": ["DeepseekV2ForCausalLM"], "hidden_size": 8}})
    assert found.verdict.outcome == "will_not_start"
    assert found.verdict.reason == (
        "config.json names no architectures (its language model: DeepseekV2ForCausalLM); "
        "vLLM cannot tell what to load without --hf-overrides."
    )


GAPS: list[tuple[str, dict[str, JsonValue], str]] = [
    ("MambaForCausalLM", {"model_type": "mamba", "state_size": 16}, "Mamba-1's selective scan"),
    ("DeepseekV32ForCausalLM", {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "index_topk": 2048}, "sparse attention"),
    ("LlamaForCausalLM", {"head_dim": 72}, "no kernel for heads of 72"),
    ("LlamaForCausalLM", {"quantization_config": {"quant_algo": "NVFP4", "quant_method": "modelopt"}}, "NVFP4"),
]


@pytest.mark.parametrize(("name", "config", "word"), GAPS, ids=[row[2] for row in GAPS])
def test_no_kernel_on_a_cpu_is_a_verdict_of_its_own(
    profile: Verdicts, name: str, config: dict[str, JsonValue], word: str
) -> None:
    on_cpu, on_gpu = profile(name, "cpu", config).verdict, profile(name, "cuda", config).verdict
    assert (on_cpu.outcome, on_cpu.route) == ("unprovable_here", Route.NATIVE)
    assert word in on_cpu.reason and "nothing is claimed on this machine" in on_cpu.reason
    assert on_gpu.outcome == "will_start"


def test_gguf_of_an_unknown_architecture(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(gguf_llama("rwkv6"))
    found = analyze(resolve_model(str(tmp_path / "m.gguf")), vllm_version="0.32.0", platform="cpu")
    assert (found.verdict.outcome, found.verdict.route) == ("will_not_start", Route.UNSUPPORTED)
    assert found.verdict.reason == (
        "transformers cannot turn the GGUF architecture 'rwkv6' into a checkpoint that vLLM serves."
    )
    assert found.attention.num_layers == 1


def test_gguf_profile(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(gguf_llama())
    found = analyze(resolve_model(str(tmp_path / "m.gguf")), vllm_version="0.32.0", platform="cuda")
    assert (found.architecture, found.model_type, found.max_model_len) == ("LlamaForCausalLM", "llama", 256)
    attention = found.attention
    assert (attention.kind, attention.num_layers, attention.head_dim) == ("gqa", 1, 16)
    assert found.embedding.tied and found.embedding.vocab_size == 4
    assert found.tokenizer.kind == "gguf" and found.tokenizer.stop_token_ids == (1,)
    assert found.tokenizer.chat_template_source == "GGUF tokenizer.chat_template"
    assert found.quantization is not None and (found.quantization.method, found.quantization.bits) == ("gguf", 8)
    assert found.tensors.parameters_by_dtype == {"F32": 256, "Q4_1": 2048, "Q8_0": 8192}
    assert found.memory.weight_bytes == 1024 + 1280 + 8704
    assert found.memory.served_weight_bytes == 2 * (256 + 2048 + 8192)
    assert found.memory.served_dtype == "bfloat16"
    assert found.license == "apache-2.0" and found.dependencies.extras == ("convert",)
    assert found.sources["attention.num_layers"] == "GGUF metadata:llama.block_count"


@pytest.mark.parametrize(
    ("words", "dtypes", "served"),
    [
        ({"torch_dtype": "float32"}, "F32", "bfloat16"),
        ({"torch_dtype": None, "dtype": "float16"}, "F16", "float16"),
        ({"torch_dtype": None}, "F16", "float16"),
        ({"torch_dtype": None, "text_config": {"dtype": "bfloat16", "hidden_size": 8}}, "BF16", "bfloat16"),
    ],
)
def test_served_dtype(tmp_path: Path, words: dict[str, JsonValue], dtypes: str, served: str) -> None:
    size = 4 if dtypes == "F32" else 2
    files = {"model.safetensors": safetensors_bytes({"lm_head.weight": (10, 8)}, dtypes, size)}
    folder = write_model(tmp_path / "m", words, files)
    memory = analyze(resolve_model(str(folder)), vllm_version="0.32.0", platform="cuda").memory
    assert (memory.served_dtype, memory.weight_bytes, memory.served_weight_bytes) == (served, 80 * size, 160)


def test_registry_picks_the_nearest_that_is_not_newer() -> None:
    exact, later = registry_for("0.33.0"), registry_for("0.34.1+cu130")
    assert exact.note is None and exact.registry.vllm_version == "0.33.0"
    assert later.registry is exact.registry
    assert later.note is not None and "nearest older one" in later.note


def test_registry_data_is_whole() -> None:
    registry = registry_for("0.32.0").registry
    served = registry.served
    assert len(registry.text_generation) > 100 and {"LlamaForCausalLM", "Qwen3_5ForConditionalGeneration"} <= served
    assert not served & set(registry.dropped)
    for alias in aliases().values():
        assert alias.served_as in served and alias.architecture not in served
    named = {name for signal in backend_signals() for name in signal.when.architectures}
    assert {"LlamaForCausalLM", "DogeForCausalLM", "BertLMHeadModel"} <= named
