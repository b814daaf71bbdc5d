"""Wall time and memory of a command, from the outside."""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LAUNCHER = Path(__file__).with_name("launcher.py")
TIMEOUT_SECONDS = 300.0
MOST_TAIL = 400


@dataclass(frozen=True)
class Figure:
    """What a command took over its runs."""

    seconds: float
    """Median wall time."""
    best_seconds: float
    """Of the run that the machine disturbed least."""
    cpu_seconds: float
    """Least of any run."""
    peak_mb: float
    """Most resident memory of any run."""
    runs: int


@dataclass(frozen=True)
class NotRun:
    """A command that gave no figure, and why."""

    reason: str


def measure(command: Sequence[str], environment: Mapping[str, str], runs: int, warm: int = 1) -> Figure | NotRun:
    """Run a command several times, the first ones uncounted: they fill the file cache and Python's bytecode cache.

    Args:
        command: program and arguments.
        environment: variables beside this process's own; an empty value removes one.
        runs: how many count.
        warm: how many do not.
    """
    taken = []
    for number in range(runs + warm):
        once = _once(command, environment)
        if isinstance(once, NotRun):
            return once
        taken += [once] if number >= warm else []
    walls = [one["seconds"] for one in taken]
    return Figure(
        statistics.median(walls),
        min(walls),
        min(one["cpu_seconds"] for one in taken),
        max(one["peak_mb"] for one in taken),
        runs,
    )


def _once(command: Sequence[str], environment: Mapping[str, str]) -> dict[str, float] | NotRun:
    merged = {**os.environ, **environment}
    kept = {name: value for name, value in merged.items() if value}
    launch = [sys.executable, "-I", "-S", str(LAUNCHER), str(TIMEOUT_SECONDS), *command]
    done = subprocess.run(launch, env=kept, capture_output=True, text=True, errors="replace", encoding="utf-8")
    if done.returncode:
        return NotRun(f"cannot be started: {_last(done.stderr)}")
    told: dict[str, float] = json.loads(done.stdout)
    if told.get("timed_out"):
        return NotRun(f"not finished within {TIMEOUT_SECONDS:.0f} seconds")
    return NotRun(f"ended with {told['code']:.0f}: {_last(done.stderr)}") if told["code"] else told


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1][:MOST_TAIL]
