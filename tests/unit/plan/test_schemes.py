"""Which scheme, and why not the others; and that the rows themselves are sound."""

import pytest

from autoadapter.artifacts import Hardware, ModelProfile, Strategy
from autoadapter.artifacts.model_profile import QuantizationTraits, StateTraits
from autoadapter.engine.schemes import SchemeRow, scheme, schemes
from autoadapter.errors import UserError
from autoadapter.plan import make_plan
from autoadapter.plan.legality import Layout
from autoadapter.plan.schemes import group_size, shape_refusal
from tests.unit.plan.sketches import CPU, gpu, llama_8b, llama_70b, mla_16b, qwen3_30b, smollm2, wish

GPTQ = QuantizationTraits(method="gptq", bits=4, group_size=128, source="config.json:quantization_config")


@pytest.mark.parametrize("row", schemes(), ids=lambda row: row.name)
def test_each_row_says_why_and_where_it_was_read(row: SchemeRow) -> None:
    assert row.title
    assert row.why
    assert row.source
    assert (row.served_bits is None) == (row.name == "as_is") == (row.backend is None)
    assert scheme(row.name) is row


def test_unknown_scheme_suggests_the_nearest() -> None:
    with pytest.raises(UserError) as caught:
        scheme("int8_w8a9")
    assert str(caught.value) == "Unknown scheme 'int8_w8a9'. Did you mean int8_w8a8?"
    assert caught.value.hint == "Known: as_is, int8_w8a8, fp8_dynamic, w4a16_gptq"


@pytest.mark.parametrize(
    ("name", "hardware", "reason"),
    [
        ("fp8_dynamic", CPU, "vLLM has no usable fp8_dynamic kernel on cpu"),
        ("fp8_dynamic", gpu("a100"), "fp8_dynamic needs compute capability 8.9, a100 has 8.0"),
        ("int8_w8a8", gpu("b200"), "int8_w8a8 has no kernel above compute capability 9.0, b200 has 10.0"),
        ("int8_w8a8", gpu("h200"), None),
        ("w4a16_gptq", gpu("t4"), None),
        ("as_is", CPU, None),
    ],
)
def test_hardware_refusals(name: str, hardware: Hardware, reason: str | None) -> None:
    assert scheme(name).refusal(hardware) == reason


@pytest.mark.parametrize(
    ("model", "hardware", "strategy", "taken"),
    [
        (smollm2(), CPU, Strategy.BALANCED, "int8_w8a8"),
        (smollm2(), CPU, Strategy.MIN_MEM, "int8_w8a8"),
        (llama_8b(), gpu("h200"), Strategy.MAX_PERF, "fp8_dynamic"),
        (llama_8b(), gpu("a100"), Strategy.MAX_PERF, "int8_w8a8"),
        (llama_8b(), gpu("h200"), Strategy.MIN_MEM, "w4a16_gptq"),
        (qwen3_30b(), gpu("h200"), Strategy.BALANCED, "as_is"),
        (qwen3_30b(), gpu("a100"), Strategy.BALANCED, "as_is"),
        (mla_16b(), gpu("h200"), Strategy.MIN_MEM, "as_is"),
    ],
)
def test_what_a_strategy_takes(model: ModelProfile, hardware: Hardware, strategy: Strategy, taken: str) -> None:
    plan = make_plan(model, wish(hardware, strategy))
    assert plan.scheme.name == taken
    rejected = {row.choice for row in plan.rejected}
    assert {row.name for row in schemes()} - {taken} <= rejected
    assert all(row.reason and row.source for row in plan.rejected)


@pytest.mark.parametrize(("tensor", "group"), [(1, 64), (3, 64)])
def test_the_group_divides_every_input(tensor: int, group: int) -> None:
    """576 is no multiple of 128."""
    assert group_size(smollm2(), scheme("w4a16_gptq"), Layout(tensor=tensor)) == group


def test_the_group_shrinks_with_the_shard() -> None:
    row = scheme("w4a16_gptq")
    mlp = llama_8b().mlp
    assert mlp is not None
    model = llama_8b().model_copy(update={"mlp": mlp.model_copy(update={"intermediate_size": 11_008})})
    assert [group_size(model, row, Layout(tensor=size)) for size in (1, 2, 4, 8)] == [128, 128, 64, 32]


def test_no_group_is_a_reason_with_the_sizes() -> None:
    embedding = smollm2().embedding.model_copy(update={"hidden_size": 568})
    model = smollm2().model_copy(update={"embedding": embedding})
    reason = shape_refusal(model, scheme("w4a16_gptq"), Layout(), on_cpu=False)
    assert reason == "no group size of 128, 64, 32 divides all of the inputs 568, 576, 1536"
    assert shape_refusal(model, scheme("int8_w8a8"), Layout(), on_cpu=True) == (
        "its kernel needs multiples of 16, a matrix has 568 inputs"
    )
    plan = make_plan(model, wish(CPU))
    assert plan.scheme.name == "as_is"
    assert "its kernel needs multiples of 16" in next(r.reason for r in plan.rejected if r.choice == "int8_w8a8")


def test_a_quantized_checkpoint_is_served_as_it_is() -> None:
    model = llama_8b().model_copy(update={"quantization": GPTQ})
    plan = make_plan(model, wish(gpu("l4")))
    assert (plan.scheme.name, plan.scheme.backend) == ("as_is", None)
    reasons = {row.reason for row in plan.rejected if row.choice in ("int8_w8a8", "fp8_dynamic", "w4a16_gptq")}
    assert reasons == {"the checkpoint is already quantized with gptq (4 bit)"}


def test_gguf_is_converted_so_it_may_be_quantized() -> None:
    gguf = QuantizationTraits(method="gguf", bits=4, source="GGUF header")
    plan = make_plan(smollm2().model_copy(update={"quantization": gguf}), wish(CPU))
    assert plan.scheme.name == "int8_w8a8"


def test_recurrent_models_are_left_alone() -> None:
    state = StateTraits(kind="mamba2", num_layers=4)
    plan = make_plan(smollm2().model_copy(update={"state": state}), wish(gpu("h200")))
    assert plan.scheme.name == "as_is"


def test_gpt2_is_left_alone() -> None:
    plan = make_plan(smollm2().model_copy(update={"model_type": "gpt2"}), wish(CPU))
    assert plan.scheme.name == "as_is"
    assert any("Conv1D" in row.reason for row in plan.rejected)


@pytest.mark.parametrize(
    ("model", "hardware", "name", "sentence"),
    [
        (smollm2(), CPU, "fp8_dynamic", "--scheme fp8_dynamic: vLLM has no usable fp8_dynamic kernel on cpu."),
        (
            llama_8b().model_copy(update={"quantization": GPTQ}),
            gpu("l4"),
            "fp8_dynamic",
            "--scheme fp8_dynamic: the checkpoint is already quantized with gptq (4 bit).",
        ),
        (smollm2(), CPU, "int4", "Unknown scheme 'int4'."),
    ],
)
def test_a_scheme_that_cannot_be_is_refused(model: ModelProfile, hardware: Hardware, name: str, sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        make_plan(model, wish(hardware, scheme=name))
    assert str(caught.value).startswith(sentence)


def test_the_users_scheme_is_taken_and_said_so() -> None:
    plan = make_plan(smollm2(), wish(CPU, scheme="w4a16_gptq"))
    assert (plan.scheme.name, plan.scheme.options, plan.scheme.source) == (
        "w4a16_gptq",
        {"group_size": 64},
        "--scheme",
    )
    assert {variable.name: variable.value for variable in plan.env}["VLLM_CPU_INT4_W4A8"] == "0"


def test_a_smaller_scheme_is_used_where_the_larger_does_not_fit() -> None:
    """70B in FP8 does not fit one H100; min_mem stores 4 bits and does."""
    plan = make_plan(llama_70b(), wish(gpu("h100"), Strategy.MIN_MEM))
    assert plan.scheme.name == "w4a16_gptq"
