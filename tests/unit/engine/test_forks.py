"""The fork server: one import, many jobs, and every way in which a job can end."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from autoadapter.engine.forks import ForkServer, JobError
from autoadapter.errors import WorkerError

JOBS = """
import os, time
IMPORTED = os.getpid()

def double(arguments):
    print("said in the job")
    return {"double": 2 * arguments["number"], "imported_here": IMPORTED == os.getpid()}

def fail(arguments):
    try:
        raise KeyError("the first cause")
    except KeyError as error:
        raise RuntimeError("what came of it") from error

def crash(arguments):
    os.abort()

def hang(arguments):
    time.sleep(600)

def tell(arguments):
    with open(arguments["file"], "w") as sink:
        sink.write(str(os.getpid()))
    time.sleep(600)
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ForkServer]:
    (tmp_path / "forked_jobs.py").write_text(JOBS)
    with ForkServer(
        Path(sys.executable), ("forked_jobs",), log=tmp_path / "server.log", env={"PYTHONPATH": str(tmp_path)}
    ) as started:
        yield started


def test_jobs_share_one_import_and_keep_their_output_apart(server: ForkServer, tmp_path: Path) -> None:
    first = server.call("forked_jobs:double", {"number": 21}, log=tmp_path / "a" / "job.log")
    second = server.call("forked_jobs:double", {"number": 4}, log=tmp_path / "other.log")
    assert first.result == {"double": 42, "imported_here": False}
    assert second.result == {"double": 8, "imported_here": False}
    assert first.error is None
    assert (tmp_path / "a" / "job.log").read_text() == "said in the job\n"


def test_an_exception_a_crash_and_a_hang_are_told_and_the_next_job_runs(server: ForkServer, tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    failed = server.call("forked_jobs:fail", {}, log=log)
    crashed = server.call("forked_jobs:crash", {}, log=log)
    hung = server.call("forked_jobs:hang", {}, log=log, timeout=0.3)
    assert failed.error is not None and failed.error.kind == "KeyError"
    assert "the first cause" in failed.error.message
    assert failed.error.frames[-1].startswith(str(tmp_path / "forked_jobs.py"))
    assert crashed.error is not None and str(crashed.error) == f"Died: the process ended with code -{signal.SIGABRT:d}"
    assert hung.error is not None and hung.error.kind == "Timeout"
    refusal = "1 validation error for ModelConfig\n  Value error, no such class [type=value_error, input_value=1]"
    assert str(JobError("ValidationError", refusal)) == "ValidationError: no such class"
    assert str(JobError("AssertionError", "", ("/a/b/model.py:7",))) == "AssertionError at model.py:7"
    assert server.call("forked_jobs:double", {"number": 1}, log=log).result is not None


def test_closing_ends_a_job_that_another_thread_waits_for(server: ForkServer, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(server.call, "forked_jobs:tell", {"file": str(file)}, log=tmp_path / "job.log")
        _wait_until(lambda: file.is_file() and file.read_text() != "")
        server.close()
        end = waiting.result(20)
    assert end.error is not None and end.error.kind == "Died"
    _wait_until(lambda: not _is_running(int(file.read_text())))
    with pytest.raises(WorkerError, match="ended"):
        server.call("forked_jobs:double", {"number": 1}, log=tmp_path / "job.log")


def test_a_module_that_does_not_import_is_an_error_with_its_cause(tmp_path: Path) -> None:
    with ForkServer(Path(sys.executable), ("no_such_module_at_all",), log=tmp_path / "server.log") as server:
        with pytest.raises(WorkerError, match="no_such_module_at_all"):
            server.call("json:loads", {}, log=tmp_path / "job.log")


def test_the_job_dies_with_the_process_that_asked(tmp_path: Path) -> None:
    (tmp_path / "forked_jobs.py").write_text(JOBS)
    told = tmp_path / "pid"
    script = (
        "import sys; from pathlib import Path; from autoadapter.engine.forks import ForkServer\n"
        f"server = ForkServer(Path(sys.executable), ('forked_jobs',), log=Path({str(tmp_path / 's.log')!r}),"
        f" env={{'PYTHONPATH': {str(tmp_path)!r}}})\n"
        f"server.call('forked_jobs:tell', {{'file': {str(told)!r}}}, log=Path({str(tmp_path / 'j.log')!r}))\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script])
    _wait_until(lambda: told.is_file() and told.read_text() != "")
    parent.kill()
    parent.wait()
    job = int(told.read_text())
    _wait_until(lambda: not _is_running(job))


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _wait_until(happened: object, seconds: float = 30.0) -> None:
    assert callable(happened)
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)
