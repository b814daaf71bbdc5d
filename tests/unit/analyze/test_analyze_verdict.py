"""The verdict: which route, why, and why not the earlier ones."""

import shlex
from pathlib import Path
from typing import Literal

import pytest
from pydantic import JsonValue

from autoadapter.analyze import analyze, resolve_model
from autoadapter.artifacts import ModelProfile, Route
from autoadapter.engine.registry import aliases, backend_signals, registry_for
from tests.unit.analyze.analyze_files import LLAMA_SHAPES, gguf_llama, safetensors_bytes, torch_bytes, write_model


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
    assert found.verdict.reason == (
        "vLLM 0.32.0 serves LlamaForCausalLM with a model class of its own. "
        "It is served after `autoadapter optimize` has converted the GGUF weights to safetensors."
    )


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
    found = profile("CohereCompassForCausalLM")
    assert (found.verdict.outcome, found.verdict.route) == ("will_not_start", Route.UNSUPPORTED)
    assert "vLLM serves the family as " in found.verdict.reason
    considered = [Route.NATIVE, Route.ALIAS, Route.TRANSFORMERS, Route.GENERATED]
    assert routes(found) == [*((route, False) for route in considered), (Route.UNSUPPORTED, True)]
    assert """--hf-overrides '{"architectures": ["Cohere""" in found.verdict.reason


def test_dropped_architecture_names_the_last_version_and_is_served_by_rendered_code(profile: Verdicts) -> None:
    verdict = profile("BambaForCausalLM").verdict
    assert (verdict.outcome, verdict.route) == ("will_start", Route.GENERATED)
    assert verdict.reason.startswith("vLLM served BambaForCausalLM until 0.23.0 and dropped it after.")
    assert "AutoAdapter writes its vLLM model code: proven on vLLM 0.32.0" in verdict.reason


def test_rendered_code_is_no_promise_where_it_was_not_proven(profile: Verdicts) -> None:
    verdict = profile("ZambaForCausalLM").verdict
    assert (verdict.outcome, verdict.route) == ("will_not_start", Route.UNSUPPORTED)
    refused = next(row for row in verdict.decisions if row.route is Route.GENERATED)
    assert refused.reason.startswith("AutoAdapter cannot write its model code: ") and not refused.taken


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
        "(known up to 5.19), and the checkpoint brings no code (auto_map)."
    )


@pytest.mark.parametrize("name", ["BertModel", "XLMRobertaForSequenceClassification", "RobertaForMaskedLM"])
def test_models_that_do_not_generate(profile: Verdicts, name: str) -> None:
    verdict = profile(name).verdict
    assert (verdict.outcome, verdict.route) == ("not_generative", Route.UNSUPPORTED)
    assert verdict.is_refused
    assert verdict.reason.startswith(f"AutoAdapter serves models that generate text; {name} encodes")
    pools = name in registry_for("0.32.0").registry.pooling
    assert ("vLLM 0.32.0 serves it as a pooling model" in verdict.reason) is pools
    assert ("--runner pooling" in (verdict.hint or "")) is pools
    assert verdict.hint


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
        "vLLM cannot tell what to load without --hf-overrides. "
        "Nor does it state layers or heads: it is no whole config."
    )


def test_a_config_that_says_its_type_alone(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    verdict = analyze(resolve_model(str(tmp_path)), vllm_version="0.32.0", platform="cuda").verdict
    assert verdict.outcome == "will_not_start"
    assert verdict.reason.startswith("config.json names no architectures; vLLM cannot tell what to load")
    assert verdict.reason.endswith("it is no whole config.")
    assert (verdict.hint or "").startswith("Take the whole config.json")


@pytest.mark.parametrize(
    ("name", "version", "hint"),
    [
        ("MotifForCausalLM", "0.32.0", "--vllm-version 0."),
        ("NobodyKnowsForCausalLM", "0.32.0", "No known release of vLLM serves it"),
    ],
)
def test_what_to_do_when_it_does_not_start(profile: Verdicts, name: str, version: str, hint: str) -> None:
    verdict = profile(name, version=version).verdict
    assert verdict.outcome == "will_not_start"
    assert hint in (verdict.hint or "")
    if "--vllm-version" in hint:
        words = shlex.split(verdict.hint or "")
        assert words[:3] == ["autoadapter", "analyze", str(profile.folder)]
        assert profile(name, version=words[-1]).verdict.outcome == "will_start"


@pytest.mark.parametrize("version", ["0.10.0", "0.24.0"])
def test_no_promise_for_a_release_that_no_table_knows(profile: Verdicts, version: str) -> None:
    verdict = profile("LlamaForCausalLM", version=version).verdict
    assert (verdict.outcome, verdict.route, verdict.version_unknown) == ("unprovable_here", Route.NATIVE, True)
    assert verdict.reason.startswith(f"vLLM {version} is older than every release that AutoAdapter knows (0.25.0")
    assert (verdict.hint or "").endswith("--vllm-version 0.25.0")
    assert not profile("LlamaForCausalLM", version="0.25.0").verdict.version_unknown


def test_a_cpu_gap_is_not_blamed_on_the_version(profile: Verdicts) -> None:
    verdict = profile("LlamaForCausalLM", "cpu", {"head_dim": 72}, "0.10.0").verdict
    assert (verdict.outcome, verdict.version_unknown) == ("unprovable_here", False)


def test_bin_weights_are_converted_before_they_are_served(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", {})
    for path in folder.glob("*.safetensors"):
        path.unlink()
    (folder / "pytorch_model.bin").write_bytes(torch_bytes(LLAMA_SHAPES))
    verdict = analyze(resolve_model(str(folder)), vllm_version="0.32.0", platform="cuda").verdict
    assert "`autoadapter optimize` has converted the .bin weights to safetensors." in verdict.reason


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


NO_NAME: dict[str, JsonValue] = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}


@pytest.mark.parametrize(
    ("model_type", "outcome", "reason", "family"),
    [
        ("llama", "will_start", "vLLM fills in LlamaModel", "LlamaForCausalLM"),
        ("mistral", "will_start", "vLLM fills in MistralModel", "MistralForCausalLM"),
        ("qwen3", "not_generative", "vLLM fills in Qwen3Model", "Qwen3ForCausalLM"),
        ("phi3", "not_generative", "serves it as a pooling model that writes no text", "Phi3ForCausalLM"),
        ("gpt2", "not_generative", "vLLM fills in GPT2Model", "GPT2LMHeadModel"),
        ("deepseek_vl_v2", "will_not_start", "names no architectures", "DeepseekVLV2ForCausalLM"),
    ],
)
def test_the_class_that_vllm_fills_in(
    profile: Verdicts, model_type: str, outcome: str, reason: str, family: str
) -> None:
    verdict = profile(None, config={**NO_NAME, "model_type": model_type}).verdict
    assert verdict.outcome == outcome
    assert reason in verdict.reason
    words = shlex.split(verdict.hint or "")
    assert words[:2] == ["vllm", "serve"]
    assert words[-2:] == ["--hf-overrides", f'{{"architectures": ["{family}"]}}']


def test_never_the_inner_language_model(profile: Verdicts) -> None:
    inner: JsonValue = {**NO_NAME, "architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2"}
    verdict = profile(None, config={"model_type": "deepseek_vl_v2", "language_config": inner}).verdict
    assert "(its language model: DeepseekV2ForCausalLM)" in verdict.reason
    assert '["DeepseekVLV2ForCausalLM"]' in (verdict.hint or "")


def test_a_family_that_nobody_knows(profile: Verdicts) -> None:
    verdict = profile(None, config={**NO_NAME, "model_type": "whatever"}).verdict
    assert verdict.outcome == "will_not_start"
    assert (verdict.hint or "").startswith("Take the whole config.json")


@pytest.mark.parametrize(
    ("names", "outcome", "taken"),
    [
        (["FooForCausalLM", "LlamaForCausalLM"], "will_start", "vLLM takes LlamaForCausalLM"),
        (["LlamaForCausalLM", "FooForCausalLM"], "will_start", "serves LlamaForCausalLM"),
        (["FooModel", "LlamaForCausalLM"], "not_generative", "FooModel encodes"),
        (["LlamaForSequenceClassification", "LlamaForCausalLM"], "not_generative", "LlamaForSequenceClassification"),
        (["FooForCausalLM", "BarForCausalLM"], "will_not_start", "FooForCausalLM is not in the registry"),
        (["Qwen3LMHeadModel"], "will_start", "vLLM takes Qwen3ForCausalLM"),
    ],
)
def test_several_architectures(profile: Verdicts, names: list[JsonValue], outcome: str, taken: str) -> None:
    verdict = profile("", config={"architectures": names}).verdict
    assert verdict.outcome == outcome
    assert taken in verdict.reason


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("WhisperForConditionalGeneration", {"model_type": "whisper"}),
        ("WhisperForConditionalGeneration", {"is_encoder_decoder": True}),
        ("CohereAsrForConditionalGeneration", {"model_type": "cohere_asr"}),
        ("FunASRForConditionalGeneration", {}),
    ],
)
def test_speech_is_not_planned(profile: Verdicts, name: str, config: dict[str, JsonValue]) -> None:
    verdict = profile(name, config=config).verdict
    assert verdict.outcome == "not_generative"
    assert "serves it for transcription" in verdict.reason
    assert "AutoAdapter plans decoders that generate text" in verdict.reason


def test_an_encoder_decoder_whose_file_leaves_it_out(profile: Verdicts) -> None:
    verdict = profile("T5ForConditionalGeneration", config={"model_type": "t5"}).verdict
    assert (verdict.outcome, verdict.reason.startswith("T5ForConditionalGeneration is an encoder-decoder")) == (
        "will_not_start",
        True,
    )
