"""Quantizers' own environments: created on first use, shared by all workspaces, never half-built under a good name."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from autoadapter.artifacts import Frozen
from autoadapter.engine.child import run_lines
from autoadapter.errors import MissingPartError, UserError
from autoadapter.hardware.machine import gpu_names
from autoadapter.optimize.capacity import require_disk
from autoadapter.progress import Progress, silent

COMPLETE = ".complete"
TAIL_LINES = 4


class Pins(Frozen):
    """A row of `data/environments.yaml`."""

    name: str
    probe: str
    """Distribution that tells whether an interpreter is such an environment."""
    disk_bytes: int
    requirements: tuple[str, ...]
    cpu_torch: str | None = None
    """The build of torch to try first on a machine without a GPU."""
    why: str
    source: str

    @property
    def digest(self) -> str:
        """12 hex digits over the pins and the Python version: other pins make another environment."""
        text = "\n".join((*self.requirements, f"python {sys.version_info.major}.{sys.version_info.minor}"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def override(self) -> str:
        """The variable that names a ready interpreter instead."""
        return f"AUTOADAPTER_{self.name.upper()}_PYTHON"


@dataclass(frozen=True)
class EnvironmentState:
    """One environment as `doctor` shows it."""

    name: str
    python: Path
    ready: bool
    source: str
    """The variable that names it, or the folder that AutoAdapter keeps."""


@cache
def pins() -> tuple[Pins, ...]:
    """All rows of `data/environments.yaml`."""
    rows = yaml.safe_load((Path(__file__).parent / "data" / "environments.yaml").read_text(encoding="utf-8"))
    return tuple(Pins.model_validate(row) for row in rows)


def home() -> Path:
    """Where environments live: `$AUTOADAPTER_HOME/envs`, or `~/.cache/autoadapter/envs`."""
    return Path(os.environ.get("AUTOADAPTER_HOME") or Path.home() / ".cache" / "autoadapter").expanduser() / "envs"


def list_environments() -> tuple[EnvironmentState, ...]:
    """What exists and what would be created. Builds nothing."""
    return tuple(_state(row) for row in pins())


def _state(row: Pins) -> EnvironmentState:
    named = os.environ.get(row.override)
    if named:
        return EnvironmentState(row.name, Path(named), _has(Path(named), row.probe), row.override)
    folder = _folder(row)
    return EnvironmentState(row.name, _python(folder), (folder / COMPLETE).exists(), str(folder))


def environment(name: str, progress: Progress = silent) -> Path:
    """The interpreter of an environment; it is created when it does not exist (minutes, gigabytes).

    Two processes that ask at once build it once. A build that was cut short is thrown away and done again.

    Raises:
        MissingPartError: pip could not install it (no network, no index); pip's own words are quoted.
        StorageError: there is no room for it.
        UserError: no such environment, or the variable that names an interpreter names none that fits.
    """
    row = next((row for row in pins() if row.name == name), None)
    if row is None:
        known = ", ".join(row.name for row in pins())
        raise UserError(f"There is no environment {name!r}.", hint=f"Known: {known}")
    state = _state(row)
    if state.source == row.override and not state.ready:
        message = f"{row.override}={state.python} is no Python interpreter that has {row.probe}."
        raise UserError(message, hint=f"Unset {row.override} to let AutoAdapter create the environment.")
    if state.ready:
        return state.python
    folder = _folder(row)
    with _locked(folder):
        if not (folder / COMPLETE).exists():
            _build(row, folder, progress)
    return _python(folder)


def _folder(row: Pins) -> Path:
    return home() / f"{row.name}-{row.digest}"


def _python(folder: Path) -> Path:
    return folder / "bin" / "python"


def _has(python: Path, distribution: str) -> bool:
    ask = f"import importlib.metadata as m; m.version({distribution!r})"
    try:
        return subprocess.run([python, "-c", ask], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(folder.name + ".lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(row: Pins, folder: Path, progress: Progress) -> None:
    """A virtual environment holds absolute paths and cannot be renamed: the marker, written last, makes it valid."""
    require_disk(folder.parent, row.disk_bytes, f"the {row.name} environment")
    shutil.rmtree(folder, ignore_errors=True)
    log = folder.with_name(folder.name + ".log")
    try:
        with log.open("w", encoding="utf-8") as sink:
            progress(f"creating the {row.name} environment (once, some minutes)")
            _step([sys.executable, "-m", "venv", str(folder)], sink.name, row, progress)
            if row.cpu_torch and not gpu_names():
                _prefer_cpu_torch(row, folder, sink.name, progress)
            _step(_pip(folder, *row.requirements), sink.name, row, progress)
        (folder / COMPLETE).write_text("\n".join(row.requirements) + "\n", encoding="utf-8")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _prefer_cpu_torch(row: Pins, folder: Path, log: str, progress: Progress) -> None:
    """Install the CPU build where pip or `TORCH_INDEX` has it; otherwise the requirements bring the CUDA build."""
    index = os.environ.get("TORCH_INDEX")
    for extra in ([], ["--extra-index-url", index] if index else None):
        if extra is None:
            return
        with suppress(MissingPartError):
            return _step(_pip(folder, str(row.cpu_torch), *extra), log, row, progress)


def _pip(folder: Path, *words: str) -> list[str]:
    return [str(_python(folder)), "-m", "pip", "install", "--no-input", "--progress-bar", "off", *words]


def _step(command: list[str], log: str, row: Pins, progress: Progress) -> None:
    lines: list[str] = []
    with Path(log).open("a", encoding="utf-8") as sink:

        def take(line: str) -> None:
            sink.write(line + "\n")
            lines.append(line.strip())
            if line.startswith(("Collecting", "Downloading", "  Downloading", "Installing")):
                progress(f"{row.name} environment: {line.strip()[:90]}")

        ended = run_lines(command, take)
    if ended.code != 0:
        raise _failure(row, lines, log)


def _failure(row: Pins, lines: list[str], log: str) -> MissingPartError:
    """Quotes pip's errors, or its last words."""
    errors = [line for line in lines if line.startswith("ERROR")] or [line for line in lines if line]
    said = " / ".join(errors[-TAIL_LINES:])[:600]
    advice = (
        "connect to a package index (pip's own settings hold, such as PIP_INDEX_URL) and repeat the command, "
        f"or name a ready interpreter: {row.override}=PATH"
    )
    return MissingPartError(
        f"The {row.name} environment (pip said: {said}; the whole log: {log})", "quantizing", install=advice
    )
