"""What is refused before anything is planned: blockers of the files, and hardware without a kernel."""

import pytest

from autoadapter.artifacts import Finding, Level, ModelProfile
from autoadapter.errors import UnsupportedModelError
from autoadapter.plan import make_plan
from tests.unit.plan.sketches import CPU, gpu, smollm2, wish


def blocked(*codes: str, level: Level = Level.BLOCKER, has_weights: bool = True) -> ModelProfile:
    findings = tuple(
        Finding(code=code, level=level, message=f"{code} it is.", hint=f"Mend {code}.", source="a test")
        for code in codes
    )
    model = smollm2().model_copy(update={"findings": findings})
    if has_weights:
        return model
    tensors = model.tensors.model_copy(update={"format": "none", "tensors": 0, "bytes": 0, "parameters": 0})
    memory = model.memory.model_copy(update={"weight_bytes": 0, "served_weight_bytes": 0})
    structure = model.structure.model_copy(update={"from_headers": False})
    return model.model_copy(update={"tensors": tensors, "memory": memory, "structure": structure})


@pytest.mark.parametrize(
    "code",
    [
        "attention.shape-conflict",
        "attention.uneven-heads",
        "embedding.rows",
        "embedding.no-head",
        "quantization.not-there",
        "quantization.unexplained",
        "tokenizer.none",
        "tokenizer.vocab-larger",
        "something.new",
    ],
)
def test_a_blocker_of_the_files_stops_the_plan(code: str) -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        make_plan(blocked(code), wish(CPU))
    assert caught.value.exit_code == 4
    assert str(caught.value) == f"The files of example/smollm2-135m cannot be served ({code}): {code} it is."
    assert caught.value.hint == f"Mend {code}."


def test_a_folder_with_a_config_alone_can_be_planned_and_keeps_its_blockers() -> None:
    plan = make_plan(blocked("weights.none", "tokenizer.none", has_weights=False), wish(CPU))
    assert [finding.code for finding in plan.findings if finding.level is Level.BLOCKER] == [
        "weights.none",
        "tokenizer.none",
    ]
    assert "plan.weights-estimated" in [finding.code for finding in plan.findings]


def test_a_conflict_in_the_config_alone_still_stops_it() -> None:
    with pytest.raises(UnsupportedModelError, match=r"attention\.uneven-heads"):
        make_plan(blocked("weights.none", "attention.uneven-heads", has_weights=False), wish(CPU))


def test_the_users_own_tokenizer_mends_the_models() -> None:
    plan = make_plan(blocked("tokenizer.none"), wish(CPU, engine_args={"tokenizer": "/models/other"}))
    assert "tokenizer.none" in [finding.code for finding in plan.findings]
    with pytest.raises(UnsupportedModelError):
        make_plan(blocked("embedding.rows"), wish(CPU, engine_args={"tokenizer": "/models/other"}))


def test_lesser_findings_stop_nothing_and_are_not_repeated() -> None:
    plan = make_plan(blocked("attention.shape-conflict", level=Level.WARNING), wish(CPU))
    assert "attention.shape-conflict" not in [finding.code for finding in plan.findings]


def test_hardware_without_a_kernel_gets_no_plan() -> None:
    verdict = smollm2().verdict.model_copy(update={"outcome": "unprovable_here", "reason": "No CPU kernel."})
    model = smollm2().model_copy(update={"verdict": verdict})
    with pytest.raises(UnsupportedModelError, match=r"does not run on a CPU with .*: No CPU kernel\.") as caught:
        make_plan(model, wish(CPU))
    assert caught.value.exit_code == 4
    assert make_plan(model, wish(gpu("h200"))).hardware.kind == "cuda"


def test_a_release_that_no_table_knows_is_planned_and_left_to_the_test() -> None:
    changes = {"outcome": "unprovable_here", "version_unknown": True}
    model = smollm2().model_copy(update={"verdict": smollm2().verdict.model_copy(update=changes)})
    assert make_plan(model, wish(CPU)).hardware.kind == "cpu"


def test_what_writes_no_text_is_not_said_to_fail() -> None:
    changes = {"outcome": "not_generative", "hint": "vllm serve X --runner pooling"}
    model = smollm2().model_copy(update={"verdict": smollm2().verdict.model_copy(update=changes)})
    with pytest.raises(UnsupportedModelError, match="does not generate text on vLLM") as caught:
        make_plan(model, wish(gpu("h200")))
    assert caught.value.hint == "vllm serve X --runner pooling"
