"""A process that imports heavy packages once and forks for every job: what an import takes is paid once.

Run as `python fork_server.py LOG MODULE ...`; the modules are imported before the first job. Only the standard library
is imported here.

It reads one JSON line a job: `function` (`package.module:name`), `arguments` (passed to it as one dict), `log` (where
the job's output goes), `timeout` (seconds). The job's function returns a dict. It answers one JSON line a job:
`{"result": …}` or `{"error": {"kind", "message", "frames"}}`, both with `seconds`. The first line of all is
`{"ready": true}` or an error. The end of its input ends the server and the job that runs.
"""

import ctypes
import gc
import importlib
import json
import os
import select
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any, BinaryIO

PR_SET_PDEATHSIG = 1  # linux/prctl.h
LONGEST_MESSAGE = 4000
FRAMES = 8


def describe(error: BaseException) -> dict[str, Any]:
    """An exception as JSON: its first cause, and the files of the innermost frames, outermost first."""
    while error.__cause__ is not None:
        error = error.__cause__
    frames = [f"{at.filename}:{at.lineno}" for at in traceback.extract_tb(error.__traceback__)]
    return {"kind": type(error).__name__, "message": str(error)[:LONGEST_MESSAGE], "frames": frames[-FRAMES:]}


def call(function: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Run `package.module:name` on `arguments`."""
    module, _, name = function.partition(":")
    return getattr(importlib.import_module(module), name)(arguments)


def redirect(log: str) -> None:
    """Send everything that this process prints to a file."""
    Path(log).parent.mkdir(parents=True, exist_ok=True)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)


def work(job: dict[str, Any], pipe: int) -> None:
    """The child: run the job, write its answer into `pipe`, never return."""
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    redirect(job["log"])
    try:
        answer = json.dumps({"result": call(job["function"], job["arguments"])})
    except BaseException as error:
        traceback.print_exc()
        answer = json.dumps({"error": describe(error)})
    sys.stdout.flush()
    sys.stderr.flush()
    with os.fdopen(pipe, "wb") as sink:
        sink.write(answer.encode())
    os._exit(0)


def read_all(pipe: int, deadline: float) -> bytes | None:
    """What comes out of `pipe` until it closes; None when time is up.

    Raises:
        EOFError: the parent is gone.
    """
    data = b""
    while (left := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select([pipe, 0], [], [], left)
        if 0 in ready:  # one job at a time: what comes before the answer can only be the end
            raise EOFError
        if pipe in ready:
            part = os.read(pipe, 1 << 20)
            if not part:
                return data
            data += part
    return None


def kill(child: int) -> None:
    """End a job and what it started."""
    for target in (-child, child):
        try:
            os.kill(target, signal.SIGKILL)
        except ProcessLookupError:
            pass


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Fork, wait, and tell how it ended.

    Raises:
        EOFError: the parent is gone; the job was ended.
    """
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        work(job, write_end)
    os.close(write_end)
    try:
        data = read_all(read_end, time.monotonic() + job["timeout"])
    finally:
        os.close(read_end)
        kill(child)
        _, status = os.waitpid(child, 0)
    if data:
        return json.loads(data)
    code = os.waitstatus_to_exitcode(status)
    if data is None:
        return {"error": {"kind": "Timeout", "message": f"no answer within {job['timeout']:g} s", "frames": []}}
    return {"error": {"kind": "Died", "message": f"the process ended with code {code}", "frames": []}}


def warm(modules: list[str]) -> dict[str, Any]:
    """Import what the jobs need."""
    try:
        for module in modules:
            importlib.import_module(module)
    except Exception as error:
        traceback.print_exc()
        return {"error": describe(error)}
    gc.freeze()  # collections in the forks leave alone what was imported: seconds a job, and shared memory
    return {"ready": True}


def serve(lines: BinaryIO, answers: BinaryIO, modules: list[str]) -> None:
    """Answer jobs until the input ends."""

    def tell(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()

    tell(warm(modules))
    for line in iter(lines.readline, b""):
        began = time.monotonic()
        try:
            answer = run(json.loads(line))
        except EOFError:
            return
        tell({**answer, "seconds": time.monotonic() - began})


def main(log: str, *modules: str) -> None:
    """Give the script's own folder no say in imports, this package a last one; keep stdout for answers."""
    own = Path(__file__).resolve()
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != own.parent]
    sys.path.append(str(own.parents[3]))
    answers = os.fdopen(os.dup(1), "wb")
    redirect(log)
    serve(os.fdopen(0, "rb", buffering=0, closefd=False), answers, list(modules))


if __name__ == "__main__":
    main(*sys.argv[1:])
