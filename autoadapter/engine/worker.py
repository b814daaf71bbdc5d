"""Runs a worker script in another interpreter: heavy imports stay out of this process.

A worker is a file under some room's `workers/`, started as `python worker.py REQUEST.json RESULT.json`. It
prints `@progress FRACTION TEXT` lines (FRACTION may be `-`), writes its result as JSON and exits 0.
"""

import json
import os
import shlex
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoadapter.engine.child import run_lines
from autoadapter.engine.startup_log import last_cause
from autoadapter.errors import WorkerError
from autoadapter.progress import Progress, silent

PROGRESS_MARK = "@progress "


@dataclass(frozen=True)
class WorkerOutcome:
    """What a worker answered and what it took."""

    result: dict[str, Any]
    seconds: float
    peak_rss_bytes: int
    command: str


def run_worker(
    python: Path,
    script: Path,
    request: Mapping[str, Any],
    *,
    log: Path,
    progress: Progress = silent,
    env: Mapping[str, str] | None = None,
) -> WorkerOutcome:
    """Run `script` in `python` and return its result.

    The request is kept beside the log, so the command in the outcome can be repeated.

    Raises:
        WorkerError: the worker ended with an error; its last cause is quoted.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    request_file = log.with_suffix(".request.json")
    request_file.write_text(json.dumps(dict(request), indent=2), encoding="utf-8")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="autoadapter-") as scratch:
        result_file = Path(scratch) / "result.json"
        command = [str(python), str(script), str(request_file), str(result_file)]
        peak = _run(command, log, progress, {**os.environ, **worker_env(), **(env or {})})
        if peak is None or not result_file.exists():
            raise WorkerError(f"The worker {script.stem} ended with an error.", cause=last_cause(log), log=log)
        result = json.loads(result_file.read_text(encoding="utf-8"))
    repeat = shlex.join([str(python), str(script), str(request_file), "result.json"])
    return WorkerOutcome(result, time.monotonic() - began, peak, repeat)


def worker_env() -> dict[str, str]:
    """Variables every worker wants: offline, quiet, and as many threads as this process may use."""
    return {
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "DO_NOT_TRACK": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": str(len(os.sched_getaffinity(0))),
        "OMP_WAIT_POLICY": "PASSIVE",
    }


def _run(command: list[str], log: Path, progress: Progress, env: dict[str, str]) -> int | None:
    """Peak resident bytes of the worker, or None when it failed."""
    with log.open("w", encoding="utf-8") as sink:

        def take(line: str) -> None:
            if not line.startswith(PROGRESS_MARK):
                sink.write(line + "\n")
                sink.flush()
                return
            fraction, _, message = line.removeprefix(PROGRESS_MARK).partition(" ")
            progress(message, None if fraction == "-" else float(fraction))

        ended = run_lines(command, take, env=env)
    return ended.peak_rss_bytes if ended.code == 0 else None
