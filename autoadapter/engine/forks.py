"""A warm process in another interpreter: it imports once and forks for every job."""

import contextlib
import json
import os
import re
import select
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from autoadapter.engine.process import stop_group
from autoadapter.engine.startup_log import last_cause
from autoadapter.engine.worker import worker_env
from autoadapter.errors import WorkerError

SCRIPT = Path(__file__).parent / "workers" / "fork_server.py"
WARM_SECONDS = 600.0
GRACE_SECONDS = 30.0
"""What a server has on top of a job's own time before it is given up."""
HEADLINE = re.compile(r"\d+ validation errors? for \w+$")
"""What pydantic says before it says what is wrong."""


@dataclass(frozen=True)
class JobError:
    """Why a job has no result."""

    kind: str
    """Name of the exception's class; `Timeout`; `Died` for a crash."""
    message: str
    frames: tuple[str, ...] = ()
    """`file:line` of the innermost frames, outermost first."""

    def __str__(self) -> str:
        """Kind and first line of the message; where it happened when there is no message."""
        lines = [line.strip() for line in self.message.splitlines() if line.strip()]
        telling = [line for line in lines if not HEADLINE.match(line)] or lines
        first = next(iter(telling), "").partition(" [type=")[0].removeprefix("Value error, ")
        if not first and self.frames:
            return f"{self.kind} at {self.frames[-1].rpartition('/')[2]}"
        return f"{self.kind}: {first}" if first else self.kind


@dataclass(frozen=True)
class JobEnd:
    """How a job ended: with a result or with an error."""

    result: dict[str, Any] | None
    error: JobError | None
    seconds: float
    log: Path


class ForkServer:
    """Starts with the first job, ends with `close` or with this process. One job at a time."""

    def __init__(
        self, python: Path, modules: tuple[str, ...], *, log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        """Describe a server.

        Args:
            python: the interpreter.
            modules: imported before the first job.
            log: what the server itself prints.
            env: variables on top of this process's own and `worker_env`.
        """
        self.python, self.modules, self.log = python, modules, log
        self.env = dict(env or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def call(self, function: str, arguments: Mapping[str, Any], *, log: Path, timeout: float = 300.0) -> JobEnd:
        """Run `package.module:name` with `arguments` as its one dict, in a fork.

        A crash, a hang and an exception are ends, not errors of this call.

        Raises:
            WorkerError: the server does not start, or was closed.
        """
        process = self._process or self._start()
        job = {"function": function, "arguments": dict(arguments), "log": str(log), "timeout": timeout}
        answer = self._ask(process, job, timeout + GRACE_SECONDS)
        if answer is None:
            self._end()
            cause = last_cause(log) or last_cause(self.log) or ""
            return JobEnd(None, JobError("Died", cause), timeout, log)
        error = answer.get("error")
        failed = JobError(error["kind"], error["message"], tuple(error["frames"])) if error else None
        return JobEnd(answer.get("result"), failed, float(answer["seconds"]), log)

    def close(self) -> None:
        """End the server and the job that runs, for good. Safe to call twice, and while another thread waits."""
        self._closed = True
        self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None and process.stdout is not None
        with contextlib.suppress(OSError):
            process.stdin.close()  # the server ends its job and itself
        try:
            process.wait(5.0)
        except subprocess.TimeoutExpired:
            stop_group(process.pid, grace=0.0)
            process.wait()
        process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self) -> subprocess.Popen[bytes]:
        if self._closed:
            raise WorkerError("The worker was ended.", log=self.log)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        process = subprocess.Popen(
            [str(self.python), str(SCRIPT), str(self.log), *self.modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **worker_env(), **self.env},
            start_new_session=True,
        )
        self._process = process
        answer = self._ask(process, None, WARM_SECONDS) or {}
        if not answer.get("ready"):
            self._end()
            error = answer.get("error") or {}
            cause = f"{error['kind']}: {error['message']}" if error else last_cause(self.log)
            raise WorkerError(f"{self.python} does not import what is needed.", cause=cause, log=self.log)
        return process

    @staticmethod
    def _ask(process: subprocess.Popen[bytes], job: dict[str, Any] | None, patience: float) -> dict[str, Any] | None:
        """The next answer, after sending `job` if there is one; None when the server is gone or silent."""
        assert process.stdin is not None and process.stdout is not None
        try:
            if job is not None:
                process.stdin.write(json.dumps(job).encode() + b"\n")
                process.stdin.flush()
            ready, _, _ = select.select([process.stdout], [], [], patience)
            line = process.stdout.readline() if ready else b""
        except (OSError, ValueError):  # a pipe that broke, or that another thread closed
            return None
        return json.loads(line) if line.endswith(b"\n") else None
