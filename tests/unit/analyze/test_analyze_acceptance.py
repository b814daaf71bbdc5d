"""What transformers and vLLM refuse as they read the files is told without either."""

from pathlib import Path
from typing import Any

import pytest

from autoadapter.analyze import analyze, resolve_model
from autoadapter.analyze.acceptance.rows import limits, schemes
from autoadapter.artifacts import Finding, Level, ModelProfile
from tests.unit.analyze.analyze_files import write_model

SIZES: dict[str, Any] = {
    "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "num_hidden_layers": 4, "intermediate_size": 14336, "max_position_embeddings": 8192,
}  # fmt: skip
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LISTS = {"short_factor": [1.0] * 64, "long_factor": [2.0] * 64}


def profile(folder: Path, version: str = "0.32.0", **config: Any) -> ModelProfile:
    model = write_model(folder / "m", {**SIZES, **config}, {})
    return analyze(resolve_model(str(model)), vllm_version=version, platform="cuda")


def told(found: ModelProfile, code: str) -> list[Finding]:
    return [finding for finding in found.findings if finding.code == code]


REFUSED = [
    ({"tie_word_embeddings": "false"}, "config.json:tie_word_embeddings is 'false'", "true or false"),
    ({"tie_word_embeddings": None}, "config.json:tie_word_embeddings", "takes true or false"),
    ({"rms_norm_eps": 1}, "rms_norm_eps is 1;", "a number with a point"),
    ({"use_cache": 1}, "use_cache is 1;", "true or false"),
    ({"hidden_act": ["silu"]}, "hidden_act is [1 entries]", "text"),
    ({"torch_dtype": "bf16"}, "torch_dtype is 'bf16', which torch has no type of", "transformers stops"),
    ({"dtype": "torch.bfloat16"}, "dtype is 'torch.bfloat16'", "transformers stops"),
    ({"eos_token_id": "2"}, "eos_token_id is '2'", "a list or null"),
    ({"rope_scaling": "linear"}, "rope_scaling is 'linear', a JSON text instead of an object", "does not start"),
    ({"rope_scaling": [4.0]}, "rope_scaling is [1 entries], a JSON list instead of an object", "does not start"),
    ({"quantization_config": "fp8"}, "quantization_config is 'fp8', a JSON text", "instead of an object"),
    ({"layer_types": ["full_attention"] * 3}, "layer_types has 3 entries and num_hidden_layers is 4", "another length"),
    ({"layer_types": ["full_attention"] * 5}, "layer_types has 5 entries and num_hidden_layers is 4", "another length"),
    ({"layer_types": ["whatever"] * 4}, "has the entry 'whatever'", "refuses"),
]


@pytest.mark.parametrize(("config", "said", "wanted"), REFUSED, ids=[str(row[0])[:40] for row in REFUSED])
def test_values_of_another_kind(tmp_path: Path, config: dict[str, Any], said: str, wanted: str) -> None:
    (finding,) = told(found := profile(tmp_path, **config), "config.refused")
    assert finding.level is Level.BLOCKER and finding.hint
    assert said in finding.message and wanted in finding.message
    assert "config.refused" in found.verdict.reason


def test_an_older_transformers_checks_nothing(tmp_path: Path) -> None:
    assert not told(profile(tmp_path, "0.10.0", tie_word_embeddings="false"), "config.refused")


FINE: list[dict[str, Any]] = [
    {},
    {"rope_scaling": None},
    {"rope_scaling": {}},
    {"num_key_value_heads": None},
    {"attention_dropout": 0},
    {"torch_dtype": "torch.bfloat16", "dtype": "bfloat16"},
    {"layer_types": ["full_attention"] * 4},
    {"tie_word_embeddings": "false", "model_type": "of-its-own-code"},
    {"tie_word_embeddings": "false", "auto_map": {"AutoConfig": "configuration_x.XConfig"}},
]


@pytest.mark.parametrize("config", FINE, ids=[str(row)[:40] for row in FINE])
def test_values_that_nobody_refuses(tmp_path: Path, config: dict[str, Any]) -> None:
    codes = {finding.code for finding in profile(tmp_path, **config).findings}
    assert not codes & {"config.refused", "rope.refused", "quantization.refused"}


ROPE = [
    ({"rope_type": "llama3", "factor": 8.0}, "lacks low_freq_factor and high_freq_factor"),
    ({"type": "yarn"}, "of type yarn and lacks factor"),
    ({"type": "linear"}, "lacks factor"),
    ({"type": "dynamic", "alpha": 1000.0}, "has alpha and no factor"),
    ({"rope_type": "longrope"}, "lacks short_factor and long_factor"),
    ({"type": "su", **LISTS, "long_factor": [1.0] * 48}, "long_factor has 48 factors and the model rotates 64 pairs"),
    ({"rope_type": "longrope", **LISTS, "short_factor": "1"}, "short_factor is '1', and not a list of numbers"),
    ({"type": "mrope", "factor": 2.0}, "of type mrope and lacks mrope_section"),
    ({"rope_type": "foo", "factor": 2.0}, "rope_type is 'foo', and vLLM says: Unknown RoPE scaling type"),
    ({"rope_type": 4, "factor": 2.0}, "rope_type is 4, and vLLM says: Unknown RoPE scaling type"),
    ({**LLAMA3, "low_freq_factor": "1"}, "low_freq_factor is '1', no number"),
    ({"rope_type": "deepseek_yarn", "factor": 40.0}, "lacks original_max_position_embeddings"),
]


@pytest.mark.parametrize(("scaling", "said"), ROPE, ids=[str(row[0])[:40] for row in ROPE])
def test_rope_that_is_refused(tmp_path: Path, scaling: dict[str, Any], said: str) -> None:
    (finding,) = told(profile(tmp_path, rope_scaling=scaling), "rope.refused")
    assert finding.level is Level.BLOCKER and said in finding.message


@pytest.mark.parametrize(
    "scaling",
    [LLAMA3, {"type": "su", **LISTS}, {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}, {"factor": 4.0},
     {"rope_type": "default", "mrope_section": [16, 24, 24], "type": "mrope"}],
)  # fmt: skip
def test_rope_that_is_taken(tmp_path: Path, scaling: dict[str, Any]) -> None:
    codes = {finding.code for finding in profile(tmp_path, rope_scaling=scaling).findings}
    assert not codes & {"rope.refused", "rope.type-conflict"}


def test_partial_rotation_needs_fewer_factors(tmp_path: Path) -> None:
    lists = {"short_factor": [1.0] * 48, "long_factor": [1.0] * 48}
    found = profile(tmp_path, model_type="phi3", partial_rotary_factor=0.75, rope_scaling={"type": "longrope", **lists})
    assert not told(found, "rope.refused")


def test_two_rope_types(tmp_path: Path) -> None:
    scaling = {"type": "linear", "rope_type": "dynamic", "factor": 2.0}
    (finding,) = told(profile(tmp_path, rope_scaling=scaling), "rope.type-conflict")
    assert finding.level is Level.BLOCKER


@pytest.mark.parametrize(("heads", "kv_heads"), [(32, 5), (32, 64), (30, 8)])
def test_heads_that_do_not_divide(tmp_path: Path, heads: int, kv_heads: int) -> None:
    found = profile(tmp_path, num_attention_heads=heads, num_key_value_heads=kv_heads)
    (finding,) = told(found, "attention.kv-heads-uneven")
    assert finding.level is Level.BLOCKER
    assert f"num_heads ({heads}) is not divisible by num_kv_heads ({kv_heads})" in finding.message


def test_more_experts_for_a_token_than_there_are(tmp_path: Path) -> None:
    moe: dict[str, Any] = {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "num_local_experts": 8}
    (finding,) = told(profile(tmp_path, **moe, num_experts_per_tok=20), "moe.top-k-too-many")
    assert "num_experts_per_tok is 20 and num_local_experts 8" in finding.message
    assert not told(profile(tmp_path, **moe, num_experts_per_tok=2), "moe.top-k-too-many")


GPTQ: dict[str, Any] = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
AWQ: dict[str, Any] = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
FP8: dict[str, Any] = {"quant_method": "fp8", "activation_scheme": "dynamic"}
ROUND: dict[str, Any] = {"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True}
UNSERVED = [
    (GPTQ | {"bits": 3}, "gptq with bits 3 and sym true, and vLLM serves bits 4 and sym true or bits 8 and sym true"),
    (GPTQ | {"sym": False}, "bits 4 and sym false"),
    (
        GPTQ | {"desc_act": True},
        "desc_act true and group_size 128, and vLLM serves desc_act false or desc_act true and",
    ),
    (GPTQ | {"group_size": 256}, "group_size 256, and vLLM serves group_size -1 or group_size 32"),
    ({key: value for key, value in GPTQ.items() if key != "sym"}, "says gptq and lacks sym"),
    (AWQ | {"bits": 8}, "awq with bits 8, and vLLM serves bits 4"),
    ({key: value for key, value in AWQ.items() if key != "zero_point"}, "lacks zero_point"),
    (FP8 | {"activation_scheme": "token"}, "activation_scheme token, and vLLM serves activation_scheme dynamic"),
    ({"quant_method": "fp8"}, "fp8 with activation_scheme null"),
    (FP8 | {"activation_scheme": "static", "weight_block_size": [128, 128]}, "weight_block_size given"),
    (ROUND | {"bits": 16}, "auto-round with bits 16"),
    (ROUND | {"packing_format": "auto_round:other"}, "packing_format auto_round:other"),
    ({"quant_method": "modelopt"}, "lacks quant_algo"),
]


@pytest.mark.parametrize(("config", "said"), UNSERVED, ids=[str(row[0])[:60] for row in UNSERVED])
def test_variants_that_vllm_does_not_serve(tmp_path: Path, config: dict[str, Any], said: str) -> None:
    findings = told(profile(tmp_path, quantization_config=config), "quantization.refused")
    assert findings and all(finding.level is Level.BLOCKER for finding in findings)
    assert any(said in finding.message for finding in findings), findings


@pytest.mark.parametrize("config", [GPTQ, GPTQ | {"bits": 8}, GPTQ | {"desc_act": True, "group_size": -1}, AWQ,
                                    AWQ | {"zero_point": False}, FP8, FP8 | {"activation_scheme": "static"},
                                    FP8 | {"weight_block_size": [128, 128]}, ROUND])  # fmt: skip
def test_variants_that_vllm_serves(tmp_path: Path, config: dict[str, Any]) -> None:
    assert not told(profile(tmp_path, quantization_config=config), "quantization.refused")


def test_a_row_speaks_of_its_releases(tmp_path: Path) -> None:
    ordered = GPTQ | {"desc_act": True}
    assert not told(profile(tmp_path, "0.31.0", quantization_config=ordered), "quantization.refused")


@pytest.mark.parametrize("config", [GPTQ, AWQ])
def test_groups_that_do_not_divide_a_width(tmp_path: Path, config: dict[str, Any]) -> None:
    found = profile(tmp_path, quantization_config=config | {"group_size": 100})
    assert any("4096, which is no whole number of groups" in one.message for one in told(found, "quantization.refused"))


INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": True}
INT8 = {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True}
FLOAT8 = {"num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": True}
FLOAT4 = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16, "symmetric": True}
TOKEN = {"num_bits": 8, "type": "int", "strategy": "token", "dynamic": True}
PACKED = "pack-quantized"
GROUPS = [
    (INT4, None, PACKED, True),
    (INT4 | {"symmetric": False}, None, PACKED, True),
    (INT4 | {"actorder": "static"}, None, PACKED, True),
    (INT4 | {"actorder": "group"}, None, PACKED, False),
    (INT4 | {"num_bits": 1}, None, PACKED, False),
    (INT4, None, "int-quantized", False),
    (INT8, TOKEN, "int-quantized", True),
    (INT8 | {"symmetric": False}, TOKEN, "int-quantized", False),
    (INT8, None, "int-quantized", False),
    (FLOAT8, FLOAT8, "float-quantized", True),
    (FLOAT8, None, "float-quantized", True),
    (FLOAT8 | {"strategy": "group", "group_size": 128}, FLOAT8, "float-quantized", False),
    (FLOAT4, FLOAT4 | {"dynamic": "local"}, "nvfp4-pack-quantized", True),
    (FLOAT4, None, "nvfp4-pack-quantized", True),
    (FLOAT4 | {"group_size": 32}, None, "nvfp4-pack-quantized", False),
]


@pytest.mark.parametrize(("weights", "inputs", "form", "is_served"), GROUPS)
def test_groups_of_compressed_tensors(
    tmp_path: Path, weights: dict[str, Any], inputs: dict[str, Any] | None, form: str, is_served: bool
) -> None:
    group = {"targets": ["Linear"], "weights": weights, "input_activations": inputs}
    config = {"quant_method": "compressed-tensors", "format": form, "config_groups": {"group_0": group}}
    findings = told(profile(tmp_path, quantization_config=config), "quantization.scheme")
    assert not findings if is_served else findings[0].level is Level.BLOCKER


def test_sparse_checkpoints_are_gone(tmp_path: Path) -> None:
    config = {"quant_method": "compressed-tensors", "format": PACKED, "sparsity_config": {"targets": ["Linear"]}}
    (finding,) = told(profile(tmp_path, quantization_config=config), "quantization.scheme")
    assert "Sparsity support has been removed" in finding.message


def test_a_config_that_names_no_method(tmp_path: Path) -> None:
    (finding,) = told(profile(tmp_path, quantization_config={"bits": 4}), "quantization.unread")
    assert "names neither quant_method nor producer" in finding.message


def test_every_row_has_its_source() -> None:
    assert all(row.source.startswith("vLLM 0.3") and row.says for row in limits())
    assert all(len(values) == len(row.keys) for row in limits() for values in row.served)
    assert len({row.name for row in schemes()}) == len(schemes())
