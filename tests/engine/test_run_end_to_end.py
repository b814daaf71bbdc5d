"""`autoadapter run` on the real model and the real engine: interrupted, killed, resumed, repeated."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoadapter import AutoModelAdapter
from autoadapter.artifacts import OptimizedModel, Status, VerificationReport

pytestmark = [pytest.mark.engine, pytest.mark.quantizer, pytest.mark.timeout(1200)]


class Run:
    """`autoadapter run SAMPLE -w WORKSPACE`, watched line by line."""

    def __init__(self, model: Path, workspace: Path) -> None:
        command = [sys.executable, "-m", "autoadapter", "run", str(model), "-w", str(workspace), "--json"]
        self.seen: list[str] = []
        self.process = subprocess.Popen(
            [*command, "--served-name", "smollm2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def wait_for(self, words: str) -> None:
        """Read stderr until a line has these words."""
        for line in self._lines():
            if words in line:
                return
        pytest.fail(f"{words!r} never came:\n{''.join(self.seen)}")

    def _lines(self) -> Iterator[str]:
        assert self.process.stderr
        for line in self.process.stderr:
            self.seen.append(line)
            yield line

    def end(self) -> tuple[int, str]:
        """(exit code, stdout)."""
        out, err = self.process.communicate(timeout=900)
        self.seen.append(err)
        return self.process.returncode, out


def engines() -> set[int]:
    """Process ids of vLLM launchers on this machine."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(word.endswith(b"engine/launcher.py") for word in words):
                found.add(int(entry.name))
    return found


def gone(processes: set[int], within: float) -> bool:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        if not processes & engines():
            return True
        time.sleep(0.5)
    return False


def no_half_files(workspace: Path) -> None:
    """Everything under a final name is whole."""
    for path in workspace.rglob("*.json"):
        if not any(part.startswith(".") for part in path.relative_to(workspace).parts):
            json.loads(path.read_text())


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run") / "workspace"


def test_interrupt_while_optimizing(sample_source: Path, workspace: Path) -> None:
    run = Run(sample_source, workspace)
    run.wait_for("optimize (3 of 5)")
    run.process.send_signal(signal.SIGINT)
    code, out = run.end()
    assert code == 130
    assert json.loads(out)["error"]["message"] == "Interrupted. What was finished is kept."
    no_half_files(workspace)
    assert not list(workspace.rglob("optimized.json"))


def test_kill_while_the_engine_starts(sample_source: Path, workspace: Path) -> None:
    before = engines()
    run = Run(sample_source, workspace)
    run.wait_for("vLLM: importing")
    time.sleep(3)
    mine = engines() - before
    assert mine
    run.process.send_signal(signal.SIGKILL)
    assert run.end()[0] == -signal.SIGKILL
    assert gone(mine, within=60), "the engine outlived the run that started it"
    no_half_files(workspace)


def test_interrupt_while_the_engine_starts(sample_source: Path, workspace: Path) -> None:
    before = engines()
    run = Run(sample_source, workspace)
    run.wait_for("vLLM: importing")
    mine = engines() - before
    os.kill(run.process.pid, signal.SIGINT)
    assert run.end()[0] == 130
    assert gone(mine, within=5)
    assert not list(workspace.rglob("report.json"))


def test_the_same_command_finishes(sample_source: Path, workspace: Path) -> None:
    code, out = (run := Run(sample_source, workspace)).end()
    assert code == 0, "".join(run.seen)
    summary = json.loads(out)
    assert [summary["stages"][stage]["skipped"] for stage in ("analyze", "generate", "optimize")] == [True] * 3
    report = VerificationReport.read(Path(summary["report"]).with_suffix(".json"))
    assert report.passed
    assert len(report.engine_runs) <= 2
    status = {check.name: check.status for check in report.checks}
    for name in ("tokenizer", "parity", "quality", "bench", "load"):
        assert status[name] is Status.PASSED, name
    html = Path(summary["report"]).read_text()
    assert "<svg" in html
    assert "http://" not in html.replace("http://www.w3.org", "").replace("http://127.0.0.1", "")
    manifest = json.loads((Path(summary["bundle"]) / "bundle.json").read_text())
    assert manifest["report_digest"] == report.digest()


def test_a_second_run_skips_everything(sample_source: Path, workspace: Path) -> None:
    code, out = Run(sample_source, workspace).end()
    assert code == 0
    assert all(stage["skipped"] for stage in json.loads(out)["stages"].values())


def test_what_was_quantized_is_smaller_and_measured(workspace: Path) -> None:
    (path,) = workspace.glob("plans/*/optimized/optimized.json")
    optimized = OptimizedModel.read(path)
    assert optimized.scheme.name == "int8_w8a8"
    assert optimized.bytes_after < 0.7 * optimized.bytes_before
    assert optimized.quality
    assert optimized.quality.perplexity_after < 1.1 * optimized.quality.perplexity_before


def test_the_python_api_runs_the_same_code(sample_source: Path, workspace: Path) -> None:
    """What the commands made is found and reused; engine arguments make a plan that is honest about itself."""
    adapter = AutoModelAdapter(served_name="smollm2")
    info = adapter.analyze_model(model_path=sample_source, output_dir=workspace)
    path = adapter.generate_adapter(model_info=info, output_dir=workspace, optimization_strategy="balanced")
    assert adapter.test_adapter(adapter_path=path).passed
    tested = adapter.deploy_adapter(adapter_path=path, engine_args={"port": 8123})
    assert tested.report_digest
    changed = adapter.deploy_adapter(adapter_path=path, engine_args={"max_num_seqs": 4})
    assert changed.report_digest is None
    assert changed.plan_digest != tested.plan_digest
