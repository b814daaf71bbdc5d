"""Runs a worker of this room and records what it took."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autoadapter.artifacts import StepRecord
from autoadapter.engine import WorkerOutcome, run_worker
from autoadapter.errors import MissingPartError, StorageError, UnsupportedModelError, WorkerError
from autoadapter.optimize.backend import Job

WORKERS = Path(__file__).with_name("workers")
REPEATED = "repeated-output"
"""Where a repeated command writes, in the current directory: never over a finished checkpoint."""

_CGROUP_CPU = Path("/sys/fs/cgroup/cpu.max")


def run_step(name: str, backend: str, job: Job, request: Mapping[str, Any]) -> tuple[WorkerOutcome, StepRecord]:
    """Run `workers/<name>.py` in `job.python` with its log under `job.logs`.

    Raises:
        WorkerError: it failed; a missing package, a full disk and an unknown architecture have classes of their own.
    """
    log = job.logs / f"{name}.log"
    script = WORKERS / f"{name}.py"
    try:
        outcome = run_worker(job.python, script, request, log=log, progress=job.progress, env=thread_env())
    except WorkerError as error:
        raise _better(error, job.python, name) from None
    redirect(log, output=REPEATED)
    record = StepRecord(
        name=name,
        backend=backend,
        tool=outcome.result["tool"],
        seconds=round(outcome.seconds, 2),
        peak_rss_bytes=outcome.peak_rss_bytes,
        command=outcome.command,
    )
    return outcome, record


def redirect(log: Path, **changes: str) -> None:
    """Change keys of the kept request, so that its command can be repeated after the draft folder got its name."""
    path = log.with_suffix(".request.json")
    request = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(
        json.dumps(request | {key: value for key, value in changes.items() if key in request}, indent=2),
        encoding="utf-8",
    )


def thread_env() -> dict[str, str]:
    """As many threads as the user said, or as this process may really use: more of them spin against each other.

    Measured: GPTQ on two shared cores took four times longer with two spinning threads than with one.
    """
    return {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS") or str(usable_cores())}


def usable_cores() -> int:
    """Cores by affinity, or by the cgroup's CPU quota where that is lower; at least 1."""
    cores = len(os.sched_getaffinity(0))
    try:
        quota, period = _CGROUP_CPU.read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return cores
    return max(1, min(cores, int(quota) // int(period))) if quota.isdigit() else cores


def _better(error: WorkerError, python: Path, name: str) -> Exception:
    cause = error.cause or ""
    if module := re.search(r"No module named '([\w.]+)'|requires? (?:the )?`?(gguf|accelerate)", cause):
        part = module[1] or module[2]
        return MissingPartError(part, f"the step `{name}`", install=f"{python} -m pip install 'autoadapter[convert]'")
    if "No space left" in cause or "Disk quota exceeded" in cause:
        return StorageError(f"The disk is full: the step `{name}` could not write.", hint="Free some space and repeat.")
    if "is not supported yet" in cause or "does not recognize this architecture" in cause:
        return UnsupportedModelError(f"transformers cannot read this checkpoint: {cause}", hint=f"See {error.log}")
    return error
