"""Quantization configs of every tool, and where two of them, or config and tensors, disagree."""

import json
from pathlib import Path
from typing import Any

import pytest

from autoadapter.analyze import analyze, resolve_model
from autoadapter.analyze.headers.checkpoint import read_checkpoint
from autoadapter.analyze.quantization.exclusions import excluded_but_quantized
from autoadapter.analyze.sources import LocalFolder
from autoadapter.artifacts import Finding, Level, ModelProfile
from autoadapter.artifacts.model_profile import QuantizationTraits
from tests.unit.analyze.analyze_files import LLAMA, safetensors_bytes, write_model

SCHEME = {"num_bits": 8, "type": "float", "dynamic": False}
NVFP4 = {"num_bits": 4, "type": "float", "group_size": 16, "dynamic": False}
INLINE = {
    "quant_method": "modelopt",
    "quant_algo": "NVFP4",
    "config_groups": {"group_0": {"targets": ["Linear"], "weights": NVFP4}},
    "ignore": ["lm_head"],
    "kv_cache_scheme": SCHEME,
}


def in_file(**quantization: Any) -> dict[str, Any]:
    return {"producer": {"name": "modelopt", "version": "0.44.0"}, "quantization": quantization}


def profile(
    folder: Path, config: dict[str, Any] | None, file: dict[str, Any] | None, tensors: dict[str, Any] | None = None
) -> ModelProfile:
    document = {} if config is None else {"quantization_config": config}
    files: dict[str, bytes | str] = {} if tensors is None else {"model.safetensors": safetensors_bytes(tensors)}
    if file is not None:
        files["hf_quant_config.json"] = json.dumps(file)
    return analyze(resolve_model(str(write_model(folder, document, files))), vllm_version="0.32.0", platform="cuda")


def traits(found: ModelProfile) -> QuantizationTraits:
    assert found.quantization is not None
    return found.quantization


def told(found: ModelProfile, code: str) -> list[Finding]:
    return [finding for finding in found.findings if finding.code == code]


def quantization_codes(found: ModelProfile) -> set[str]:
    return {finding.code for finding in found.findings if finding.code.startswith("quantization.")}


METHODS = [
    ("inline ModelOpt", INLINE, None, ("modelopt_fp4", 4, 16, "fp8_e4m3")),
    ("FP8 in a file", None, in_file(quant_algo="FP8", kv_cache_quant_algo="FP8"), ("modelopt", 8, None, "fp8_e4m3")),
    ("FP8 without a cache", None, in_file(quant_algo="FP8", kv_cache_quant_algo=None), ("modelopt", 8, None, None)),
    ("NVFP4 cache", None, in_file(quant_algo="NVFP4", kv_cache_quant_algo="nvfp4"), ("modelopt_fp4", 4, None, "nvfp4")),
    ("MXFP8", {"quant_method": "modelopt", "quant_algo": "MXFP8"}, None, ("modelopt_mxfp8", 8, None, None)),
    (
        "compressed-tensors with an FP8 cache",
        {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": NVFP4}}, "kv_cache_scheme": SCHEME},
        None,
        ("compressed-tensors", 4, 16, "fp8_e4m3"),
    ),
    (
        "ModelOpt's words under another method, as DeepSeek-V4 has them",
        {"quant_method": "fp8", "quant_algo": "MIXED_PRECISION", "quantized_layers": {"a": {"quant_algo": "NVFP4"}}},
        None,
        ("fp8", 4, None, None),
    ),
    ("whole rows", {"quant_method": "gptq", "bits": 8, "group_size": -1, "sym": True}, None, ("gptq", 8, None, None)),
]


@pytest.mark.parametrize(("_", "config", "file", "expected"), METHODS, ids=[row[0] for row in METHODS])
def test_method(
    tmp_path: Path,
    _: str,
    config: dict[str, Any] | None,
    file: dict[str, Any] | None,
    expected: tuple[str, int, int | None, str | None],
) -> None:
    found = traits(profile(tmp_path / "m", config, file))
    assert (found.method, found.bits, found.group_size, found.kv_cache_dtype) == expected


def test_blocks_are_not_groups(tmp_path: Path) -> None:
    found = traits(profile(tmp_path / "m", {"quant_method": "fp8", "weight_block_size": [64, 128]}, None))
    assert found.block_size == (64, 128) and found.group_size == 128


def test_mixed_precision_is_counted(tmp_path: Path) -> None:
    layers = {
        "model.layers.0.mlp.up_proj": {"quant_algo": "W4A16_NVFP4", "group_size": 16},
        "model.layers.0.mlp.down_proj": {"quant_algo": "W4A16_NVFP4", "group_size": 16},
        "model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"},
    }
    config = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers}
    found = traits(profile(tmp_path / "m", config, None))
    assert found.algorithms == {"W4A16_NVFP4": 2, "FP8": 1}
    assert (found.method, found.bits, found.group_size) == ("modelopt_mixed", 4, 16)


def test_config_of_the_language_model_inside_a_wrapper(tmp_path: Path) -> None:
    config = {
        "architectures": ["KimiK25ForConditionalGeneration"],
        "model_type": "kimi_k25",
        "text_config": {**LLAMA, "quantization_config": {**INLINE, "quant_algo": "FP8"}},
        "vision_config": {},
    }
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    found = traits(analyze(resolve_model(str(folder)), vllm_version="0.32.0", platform="cuda"))
    assert found.source == "config.json:text_config.quantization_config" and found.bits == 8


def test_compression_config(tmp_path: Path) -> None:
    weights = {"num_bits": 8, "strategy": "channel", "symmetric": True}
    config: dict[str, Any] = {
        "compression_config": {"quant_method": "compressed_tensors", "config_groups": {"a": {"weights": weights}}}
    }
    found = analyze(resolve_model(str(write_model(tmp_path / "m", config, {}))), vllm_version="0.32.0", platform="cuda")
    assert (traits(found).method, traits(found).bits, traits(found).symmetric) == ("compressed-tensors", 8, True)


def test_two_files_that_agree_in_other_words(tmp_path: Path) -> None:
    """ModelOpt writes both: `ignore` and `exclude_modules`, a scheme and a word."""
    file = in_file(quant_algo="NVFP4", kv_cache_quant_algo="FP8", group_size=16, exclude_modules=["lm_head"])
    assert quantization_codes(profile(tmp_path / "m", INLINE, file)) == set()


DIFFERENCES = [
    (
        in_file(quant_algo="FP8", kv_cache_quant_algo="FP8", exclude_modules=["lm_head"]),
        "Quant_algo is NVFP4 in config.json:quantization_config and FP8 in hf_quant_config.json; "
        "vLLM reads config.json:quantization_config.",
    ),
    (
        in_file(quant_algo="NVFP4", exclude_modules=["lm_head"]),
        "The KV cache is FP8 in config.json:quantization_config and not stated in hf_quant_config.json; "
        "vLLM reads config.json:quantization_config.",
    ),
    (
        in_file(quant_algo="NVFP4", kv_cache_quant_algo="FP8", exclude_modules=["lm_head", "a", "b", "c", "d"]),
        "The excluded modules differ (a, b, c and 1 more only in hf_quant_config.json); "
        "vLLM reads config.json:quantization_config.",
    ),
]


@pytest.mark.parametrize(("file", "sentence"), DIFFERENCES)
def test_two_files_that_differ(tmp_path: Path, file: dict[str, Any], sentence: str) -> None:
    found = told(profile(tmp_path / "m", INLINE, file), "quantization.files-differ")
    assert [finding.message for finding in found] == [sentence]


def test_two_objects_in_one_config(tmp_path: Path) -> None:
    config: dict[str, Any] = {
        "quantization_config": INLINE,
        "compression_config": {"quant_method": "compressed-tensors"},
    }
    found = analyze(resolve_model(str(write_model(tmp_path / "m", config, {}))), vllm_version="0.32.0", platform="cuda")
    (finding,) = told(found, "quantization.two-configs")
    assert "vLLM takes config.json:quantization_config." in finding.message


UNREAD = [
    ("no producer", {"quantization": {"quant_algo": "NVFP4"}}, "quantization.unread"),
    (
        "mixed in the file alone",
        in_file(quant_algo="MIXED_PRECISION", quantized_layers={"a": {}}),
        "quantization.algorithm",
    ),
    ("unknown", in_file(quant_algo="W4A8_AWQ"), "quantization.algorithm"),
]


@pytest.mark.parametrize(("_", "file", "code"), UNREAD, ids=[row[0] for row in UNREAD])
def test_what_vllm_would_not_read(tmp_path: Path, _: str, file: dict[str, Any], code: str) -> None:
    found = profile(tmp_path / "m", None, file)
    assert quantization_codes(found) == {code} and told(found, code)[0].level is Level.BLOCKER


@pytest.mark.parametrize("name", ["FP8", "FP8_PB_WO", "NVFP4", "MIXED_PRECISION", "W4A8_AWQ"])
def test_what_modelopt_itself_wrote_is_never_called_unread(tmp_path: Path, name: str) -> None:
    file = {"producer": {"name": "modelopt", "version": "0.33.0"}, "quantization": {"quant_algo": name}}
    assert "quantization.unread" not in quantization_codes(profile(tmp_path / "m", None, file))


def test_mixed_precision_without_layers(tmp_path: Path) -> None:
    config = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}
    assert quantization_codes(profile(tmp_path / "a", config, None)) == {"quantization.no-layers"}
    file = in_file(quant_algo="MIXED_PRECISION", quantized_layers={"x": {"quant_algo": "FP8"}})
    assert "quantization.no-layers" not in quantization_codes(profile(tmp_path / "b", config, file))


HEAD = {
    "lm_head.weight": (10, 8),
    "lm_head.input_scale": (1,),
    "lm_head.weight_scale": (1,),
    "lm_head.weight_scale_2": (1,),
}


def test_excluded_head_that_is_quantized(tmp_path: Path) -> None:
    file = in_file(quant_algo="NVFP4", exclude_modules=["lm_head*"])
    (finding,) = told(profile(tmp_path / "m", None, file, HEAD), "quantization.excluded")
    assert "lm_head.input_scale, lm_head.weight_scale, lm_head.weight_scale_2 are stored" in finding.message


PACKED = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": True}


def test_excluded_by_a_regular_expression(tmp_path: Path) -> None:
    config = {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": PACKED}},
        "ignore": ["re:.*lm_head", "re:(?=x).*"],
    }
    found = profile(tmp_path / "m", config, None, {"lm_head.weight_packed": (10, 1), "lm_head.weight_scale": (10, 1)})
    (finding,) = told(found, "quantization.excluded")
    assert "lm_head.weight_packed, lm_head.weight_scale are stored" in finding.message
    (note,) = told(found, "quantization.patterns-unread")
    assert note.level is Level.INFO and "(?=x)" in note.message


PATTERNS = [
    (("lm_head",), {"lm_head"}),
    (("model.layers.0*",), {"model.layers.0.mlp.gate_proj"}),
    (("model.layers.0",), {"model.layers.0.mlp.gate_proj"}),
    (("mlp.gate",), {"model.layers.1.mlp.gate"}),
    (("gate",), {"model.layers.1.mlp.gate"}),
    (("*.mlp.*",), {"model.layers.0.mlp.gate_proj", "model.layers.1.mlp.gate", "model.layers.1.mlp.experts.0.up_proj"}),
    (("re:(a+)+$",), set()),
    (("re:.*lm_head",), {"lm_head"}),
    (("re:head",), set()),
    ((r"re:model\.layers\.\d+\.mlp\.gate$",), {"model.layers.1.mlp.gate"}),
    ((r"re:.*\.(gate|up)_proj",), {"model.layers.0.mlp.gate_proj", "model.layers.1.mlp.experts.0.up_proj"}),
    ((r"re:(?!.*gate).*",), set()),
    (("model.layers.2",), set()),
]


@pytest.mark.parametrize(("patterns", "modules"), PATTERNS)
def test_which_modules_a_pattern_excludes(tmp_path: Path, patterns: tuple[str, ...], modules: set[str]) -> None:
    names = (
        "lm_head",
        "model.layers.0.mlp.gate_proj",
        "model.layers.1.mlp.gate",
        "model.layers.1.mlp.experts.0.up_proj",
    )
    shapes = {f"{name}.{leaf}": (1,) for name in names for leaf in ("weight", "weight_scale")}
    checkpoint = read_checkpoint(
        LocalFolder(write_model(tmp_path / "m", {}, {"a.safetensors": safetensors_bytes(shapes)}))
    )
    found = excluded_but_quantized(checkpoint, patterns)
    assert {name.rsplit(".", 1)[0] for name in found} == modules
