"""The three-tensor comparison tells rounding from a wrong model."""

import math
import random
from typing import Any

import pytest

from autoadapter.artifacts import Status
from autoadapter.engine.client import Generation
from autoadapter.verify.checks.parity import TOP, Case, ParityCheck, cycle, worker_request

POSITIONS, DECODED = 40, 8


def log_softmax(logits: list[float]) -> list[float]:
    total = math.log(math.fsum(math.exp(value) for value in logits))
    return [value - total for value in logits]


def noisy(logits: list[float], sigma: float, seed: int) -> list[float]:
    chance = random.Random(seed)
    return [value + chance.gauss(0, sigma) for value in logits]


def scene(
    *, vllm_noise: float = 0.01, hf_noise: float = 0.01, vllm_scale: float = 1.0
) -> tuple[list[Case], dict[str, Any]]:
    """One prompt and its continuation, over a vocabulary as large as the listed top."""
    chance = random.Random(0)
    logits = [[chance.gauss(0, 3) for _ in range(TOP)] for _ in range(POSITIONS + DECODED)]
    served = [log_softmax([vllm_scale * x for x in noisy(row, vllm_noise, at)]) for at, row in enumerate(logits)]
    tops = [dict(enumerate(row)) for row in served]
    greedy = tuple(max(top, key=top.__getitem__) for top in tops[POSITIONS:])
    case = Case(list(range(POSITIONS + 1)), tops[:POSITIONS], Generation(greedy, "", "length", tuple(tops[POSITIONS:])))

    def worker(rows: list[list[float]]) -> list[dict[str, Any]]:
        return [
            {"logprobs": [log_softmax(r) for r in rows], "argmax": [max(range(TOP), key=r.__getitem__) for r in rows]}
        ]

    truth = {
        "exact": worker(logits),
        "rounded": worker([noisy(row, hf_noise, 1000 + at) for at, row in enumerate(logits)]),
        "control": worker([[1.05 * value for value in row] for row in logits]),
    }
    return [case], truth


def test_rounding_alone_passes() -> None:
    result = ParityCheck().judge(*scene(), "bfloat16")
    assert result.status is Status.PASSED
    assert result.measured["compared_logprobs"] == (POSITIONS + DECODED) * TOP
    assert result.measured["prefill_mean_ratio"] == pytest.approx(1.0, abs=0.2)


def test_scaled_logits_fail_although_every_greedy_token_agrees() -> None:
    result = ParityCheck().judge(*scene(vllm_noise=0.0, vllm_scale=1.1), "bfloat16")
    assert result.measured["greedy_agreement"] == 1.0
    assert result.status is Status.FAILED
    assert "prefill_mean_ratio" in result.reason


def test_more_noise_than_rounding_fails() -> None:
    assert ParityCheck().judge(*scene(vllm_noise=0.05), "bfloat16").status is Status.FAILED


def test_prompts_that_cannot_tell_fail_instead_of_passing() -> None:
    """When the reference rounds so coarsely that scaled logits would pass, the check proves nothing."""
    result = ParityCheck().judge(*scene(vllm_noise=1.0, hf_noise=1.0), "bfloat16")
    assert result.status is Status.FAILED
    assert "prefill_control_ratio" in result.reason


def test_float32_has_absolute_limits() -> None:
    exact = scene(vllm_noise=1e-6, hf_noise=0.0)
    assert ParityCheck().judge(*exact, "float32").status is Status.PASSED
    assert ParityCheck().judge(*scene(vllm_noise=1e-2, hf_noise=0.0), "float32").status is Status.FAILED


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_a_control_that_changes_nothing_fails_in_each_phase(phase: str, dtype: str) -> None:
    """A deliberate error that the prompts do not show: an error of vLLM would not show either."""
    cases, truth = scene(vllm_noise=1e-6, hf_noise=0.0) if dtype == "float32" else scene()
    rows, exact = truth["control"][0]["logprobs"], truth["exact"][0]["logprobs"]
    blind = range(POSITIONS) if phase == "prefill" else range(POSITIONS, POSITIONS + DECODED)
    for at in blind:
        rows[at] = exact[at]
    result = ParityCheck().judge(cases, truth, dtype)
    assert result.status is Status.FAILED
    assert result.reason.startswith(f"{phase}_control_")
    assert ";" not in result.reason


def test_tokens_that_are_not_the_likeliest_fail_although_every_logprob_is_right() -> None:
    cases, truth = scene()
    (case,) = cases
    second = tuple(sorted(top, key=top.__getitem__)[-2] for top in case.continuation.top)
    case = Case(case.prompt, case.prefill, Generation(second, "", "length", case.continuation.top))
    result = ParityCheck().judge([case], truth, "bfloat16")
    assert result.status is Status.FAILED
    assert "greedy_agreement is 0" in result.reason


def test_ties_that_rounding_alone_breaks_are_no_fault() -> None:
    """Where transformers itself picks another token in bfloat16, so may vLLM."""
    cases, truth = scene()
    truth["exact"][0]["argmax"] = [-1] * 2 + truth["exact"][0]["argmax"][2:]
    truth["exact"][0]["argmax"][POSITIONS : POSITIONS + 2] = [-1, -1]
    result = ParityCheck().judge(cases, truth, "bfloat16")
    assert result.measured["greedy_agreement"] == 0.75
    assert result.status is Status.PASSED


def test_a_server_without_logprobs_fails() -> None:
    cases, truth = scene()
    (case,) = cases
    silent = Case(case.prompt, case.prefill, Generation((), "", "length", ()))
    for rows in truth.values():
        rows[0] = {name: values[:POSITIONS] for name, values in rows[0].items()}
    result = ParityCheck().judge([silent], truth, "bfloat16")
    assert result.status is Status.FAILED
    assert "decode_mean_ratio is not measured" in result.reason
    assert "greedy_agreement is not measured, must be at least 0.9" in result.reason


def test_an_error_in_decode_alone_fails() -> None:
    cases, truth = scene()
    wrong = tuple({token: value * 1.5 for token, value in top.items()} for top in cases[0].continuation.top)
    case = Case(cases[0].prompt, cases[0].prefill, Generation(cases[0].continuation.ids, "", "length", wrong))
    result = ParityCheck().judge([case], truth, "bfloat16")
    assert result.status is Status.FAILED
    assert "decode_mean_ratio" in result.reason
    assert "prefill_mean_ratio" not in result.reason


def test_transformers_is_asked_for_vllms_own_tokens() -> None:
    cases, _ = scene()
    request = worker_request("/models/sample", cases, "bfloat16")
    sequence = request["sequences"][0]
    assert sequence["ids"] == cases[0].prompt + list(cases[0].continuation.ids)
    assert len(sequence["tokens"]) == len(sequence["ids"]) - 1
    assert {item["name"]: item["dtype"] for item in request["passes"]} == {
        "exact": "float32", "control": "float32", "rounded": "bfloat16",
    }  # fmt: skip


def test_a_prompt_may_be_longer_than_the_text() -> None:
    assert cycle([1, 2, 3], 2, 5) == [3, 1, 2, 3, 1]
