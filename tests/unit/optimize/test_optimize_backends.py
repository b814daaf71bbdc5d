"""What the backends accept, refuse and predict, before anything is loaded."""

from pathlib import Path
from typing import Any

import pytest

from autoadapter.artifacts import Scheme
from autoadapter.artifacts.model_profile import MoeTraits, QuantizationTraits, StateTraits
from autoadapter.engine.schemes import schemes
from autoadapter.errors import UserError
from autoadapter.hardware import parse_hardware
from autoadapter.optimize.backends import BACKENDS, Convert, LlmCompressor, backend_for
from autoadapter.optimize.backends.convert import target_dtype
from tests.unit.optimize.optimize_builders import CPU, make_census, make_profile, make_scheme


def test_as_is_needs_no_backend() -> None:
    assert backend_for(make_scheme()) is None


def test_every_scheme_of_the_planner_has_a_backend() -> None:
    """What `schemes.yaml` promises, some backend makes."""
    for row in schemes():
        if row.backend is not None:
            made = backend_for(Scheme(name=row.name, backend=row.backend, why="", source=""))
            assert made is not None
            assert row.name in made.schemes


def test_options_are_the_fields() -> None:
    backend = backend_for(make_scheme("w4a16_gptq", group_size=64))
    assert isinstance(backend, LlmCompressor)
    assert backend.group_size == 64


@pytest.mark.parametrize(
    "scheme",
    [
        Scheme(name="int8_w8a8", backend="nobody", why="", source=""),
        Scheme(name="w2a2", backend="llmcompressor", why="", source=""),
        Scheme(name="w4a16_gptq", backend="llmcompressor", options={"groupsize": 64}, why="", source=""),
        Scheme(name="w4a16_gptq", backend="llmcompressor", options={"group_size": "many"}, why="", source=""),
    ],
)
def test_unknown_names_and_options_are_refused(scheme: Scheme) -> None:
    with pytest.raises(UserError) as caught:
        backend_for(scheme)
    assert caught.value.hint
    assert "\n" not in str(caught.value)


def judge(scheme: Scheme, hardware: str = "cpu", **changes: Any) -> str:
    backend = backend_for(scheme)
    assert backend is not None
    place = CPU if hardware == "cpu" else parse_hardware(hardware)
    judgement = backend.judge(make_profile(Path("/m"), **changes), place, scheme)
    assert judgement.ok == (not judgement.reason)
    return judgement.reason


def test_int8_suits_a_dense_model_on_a_cpu() -> None:
    assert judge(make_scheme("int8_w8a8")) == ""


def test_group_must_divide_every_width() -> None:
    assert judge(make_scheme("w4a16_gptq", group_size=64)) == ""
    assert "does not divide hidden_size 576" in judge(make_scheme("w4a16_gptq", group_size=128))
    assert "needs a group_size" in judge(make_scheme("w4a16_gptq"))
    assert "needs a group_size" in judge(make_scheme("w4a16_gptq", group_size=48))


def test_hardware_without_the_kernel_is_refused() -> None:
    assert "cpu" in judge(make_scheme("fp8_dynamic"))
    assert judge(make_scheme("fp8_dynamic"), "h200") == ""


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"quantization": QuantizationTraits(method="gptq", bits=4, source="config.json")}, "gptq"),
        ({"moe": MoeTraits(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=64)}, "experts"),
        ({"state": StateTraits(kind="mamba2", num_layers=4)}, "mamba2"),
        ({"architecture": "Gemma3ForConditionalGeneration"}, "multimodal"),
        ({"tensors": make_census(Path("/m"), form="none")}, "no weights"),
    ],
)
def test_models_that_are_not_covered_are_refused(changes: dict[str, Any], word: str) -> None:
    assert word in judge(make_scheme("int8_w8a8"), **changes)


def test_gguf_quantization_is_no_obstacle() -> None:
    """A GGUF is dequantized first."""
    changes: dict[str, Any] = {
        "quantization": QuantizationTraits(method="gguf", bits=4, source="header"),
        "tensors": make_census(Path("/m/model.gguf")),
    }
    assert judge(make_scheme("int8_w8a8"), **changes) == ""


@pytest.mark.parametrize(
    ("scheme", "measured"),
    [
        (make_scheme("int8_w8a8"), 163_226_688),
        (make_scheme("w4a16_gptq", group_size=64), 113_300_000),
    ],
)
def test_estimates_hold_against_measured_sizes(scheme: Scheme, measured: int) -> None:
    """Sizes of SmolLM2-135M as llm-compressor 0.14.0.1 wrote it."""
    backend = backend_for(scheme)
    assert backend is not None
    assert backend.estimate(make_profile(Path("/m")), scheme) == pytest.approx(measured, rel=0.02)


def test_untied_head_counts_twice() -> None:
    profile = make_profile(Path("/m"))
    untied = profile.model_copy(update={"embedding": profile.embedding.model_copy(update={"tied": False})})
    scheme = make_scheme("int8_w8a8")
    assert LlmCompressor().estimate(untied, scheme) > LlmCompressor().estimate(profile, scheme)


def test_mla_keeps_kv_b_proj() -> None:
    profile = make_profile(Path("/m"))
    mla = profile.model_copy(update={"attention": profile.attention.model_copy(update={"kind": "mla"})})
    assert any("kv_b_proj" in pattern for pattern in LlmCompressor().ignore(mla))
    assert LlmCompressor().ignore(profile) == ("lm_head",)


def test_split_gguf_is_refused(tmp_path: Path) -> None:
    census = make_census(tmp_path / "a.gguf")
    split = census.model_copy(update={"files": census.files * 2})
    judgement = Convert().judge(make_profile(tmp_path, tensors=split), CPU, make_scheme())
    assert not judgement.ok
    assert "2 files" in judgement.reason


@pytest.mark.parametrize(
    ("served", "stored"),
    [("bfloat16", "bfloat16"), ("float32", "bfloat16"), ("float16", "float16"), ("torch.float16", "float16")],
)
def test_target_dtype(served: str, stored: str) -> None:
    profile = make_profile(Path("/m"))
    memory = profile.memory.model_copy(update={"served_dtype": served})
    assert target_dtype(profile.model_copy(update={"memory": memory})) == stored


def test_backends_have_distinct_names() -> None:
    assert len({backend.name for backend in BACKENDS}) == len(BACKENDS)
