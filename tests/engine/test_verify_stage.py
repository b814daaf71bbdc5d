"""The `test` stage on a real vLLM with the real sample model: it passes what is right and fails what is wrong."""

import dataclasses
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from autoadapter.artifacts import Depth, Status, VerificationReport
from autoadapter.engine import find_engine
from autoadapter.engine.process import stop_group
from autoadapter.progress import silent
from autoadapter.verify import VerifyRequest, verify
from autoadapter.verify.checks.bench import BenchCheck
from autoadapter.verify.checks.load import LoadCheck
from autoadapter.verify.checks.parity import Case, ParityCheck, ask_vllm, parity_prompts, worker_request
from autoadapter.verify.context import CheckContext
from autoadapter.verify.engines import Engines, Role
from autoadapter.verify.stage import run_check

if TYPE_CHECKING:
    from autoadapter.pipeline import Pipeline

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]


@pytest.fixture(scope="session")
def smoke_request(sample_pipeline: "Pipeline", tmp_path_factory: pytest.TempPathFactory) -> VerifyRequest:
    """The quantized sample, in a folder of its own."""
    folder = tmp_path_factory.mktemp("verify")
    generated = sample_pipeline.generate()
    return VerifyRequest(
        profile=sample_pipeline.analyze().artifact,
        plan=generated.artifact,
        optimized=sample_pipeline.optimize().artifact,
        adapter=generated.path.parent / "adapter",
        engine=find_engine(),
        depth=Depth.SMOKE,
        folder=folder,
        logs=folder / "logs",
        test_cases=("Say hello.",),
    )


@pytest.fixture(scope="session")
def report(smoke_request: VerifyRequest) -> VerificationReport:
    return verify(smoke_request)


def test_the_sample_is_proven(report: VerificationReport) -> None:
    assert {
        check.name: (check.status, check.reason) for check in report.checks if check.status is not Status.PASSED
    } == {}
    assert report.passed


def test_each_role_was_started_once(report: VerificationReport) -> None:
    assert [run.role for run in report.engine_runs] == ["reference", "candidate"]
    assert all(run.cold_start_seconds > 1 and run.kv_cache_tokens for run in report.engine_runs)


def test_both_reports_exist(report: VerificationReport, smoke_request: VerifyRequest) -> None:
    assert VerificationReport.read(smoke_request.folder / "report.json") == report
    html = (smoke_request.folder / "report.html").read_text()
    assert html.count("<svg") >= 5
    assert not re.search(r"<(script|link|img|iframe)\b|@import|url\(", html)


@pytest.fixture(scope="session")
def asked(smoke_request: VerifyRequest) -> Iterator[tuple[CheckContext, list[Case]]]:
    """What vLLM says about the unquantized sample."""
    logs = smoke_request.folder / "mutants"
    engines = Engines(dataclasses.replace(smoke_request, logs=logs), silent)
    context = CheckContext(dataclasses.replace(smoke_request, logs=logs), engines, silent)
    try:
        client = context.client(Role.REFERENCE)
        cases = ask_vllm(client, parity_prompts(context, client), context.scale.decode_tokens)
    finally:
        engines.close()
    yield context, cases


def mutated(reference: Path, folder: Path, **changes: object) -> Path:
    """A copy of a checkpoint whose config.json says something else."""
    folder.mkdir()
    for file in reference.iterdir():
        if file.name != "config.json":
            (folder / file.name).symlink_to(file)
    config = json.loads((reference / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))
    return folder


MUTATIONS: dict[str, dict[str, object]] = {
    "rope base halved": {"rope_parameters": {"rope_theta": 50000.0, "rope_type": "default"}},
    "another activation": {"hidden_act": "gelu_pytorch_tanh"},
    "norm epsilon": {"rms_norm_eps": 0.01},
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_parity_fails_a_wrong_model(
    asked: tuple[CheckContext, list[Case]], sample_model: Path, tmp_path: Path, mutation: str
) -> None:
    context, cases = asked
    wrong = mutated(sample_model, tmp_path / "wrong", **MUTATIONS[mutation])
    truth = context.worker("logprobs", worker_request(str(wrong), cases, context.request.served_dtype))
    result = ParityCheck().judge(cases, truth, context.request.served_dtype)
    assert result.status is Status.FAILED
    assert "mean_ratio" in result.reason


def test_quality_fails_a_spoiled_candidate(smoke_request: VerifyRequest, sample_model: Path, tmp_path: Path) -> None:
    """The served copy has a far smaller RoPE base than the reference: every text gets harder to predict.

    A halved base would not do: it costs nothing on windows this short, and parity is what catches it.
    """
    rope = {"rope_theta": 100.0, "rope_type": "default"}
    spoiled = mutated(sample_model, tmp_path / "spoiled", rope_parameters=rope)
    optimized = smoke_request.optimized.model_copy(update={"model_path": str(spoiled)})
    request = dataclasses.replace(
        smoke_request, optimized=optimized, folder=tmp_path, logs=tmp_path / "logs", only=("quality",)
    )
    report = verify(request)
    assert [check.name for check in report.checks] == ["quality"]
    assert report.checks[0].status is Status.FAILED
    assert "delta_nll_lower" in report.checks[0].reason


def test_a_server_that_does_not_start_is_a_failure_with_its_cause(smoke_request: VerifyRequest, tmp_path: Path) -> None:
    adapter = tmp_path / "adapter"
    shutil.copytree(smoke_request.adapter, adapter)
    config = adapter / "vllm" / "config.yaml"
    lines = [line for line in config.read_text().splitlines() if not line.startswith("max-model-len")]
    config.write_text("\n".join([*lines, "max-model-len: 1000000", ""]))
    request = dataclasses.replace(
        smoke_request, adapter=adapter, folder=tmp_path, logs=tmp_path / "logs", only=("memory", "load")
    )
    report = verify(request)
    assert [check.status for check in report.checks] == [Status.FAILED] * 2
    assert "max_model_len (1000000)" in report.checks[0].reason
    assert not report.passed


def test_a_server_that_dies_is_told_from_one_that_refuses(smoke_request: VerifyRequest, tmp_path: Path) -> None:
    request = dataclasses.replace(smoke_request, folder=tmp_path, logs=tmp_path / "logs")
    engines = Engines(request, silent)
    context = CheckContext(request, engines, silent)
    try:
        assert context.client(Role.CANDIDATE).models() == (request.plan.served_name,)
        assert engines._server is not None
        stop_group(engines._server.process_group)
        for check in (LoadCheck(), BenchCheck()):
            result = run_check(check, context)
            assert result.status is Status.FAILED
            assert "died while it served" in result.reason
    finally:
        engines.close()
