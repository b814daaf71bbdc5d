"""Runs somebody else's validator on a file of the bundle. A missing one is `not_run`, never a pass."""

import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from autoadapter.artifacts import Status, Validation

TIMEOUT_SECONDS = 120
LONGEST_REASON = 600


@dataclass(frozen=True)
class Tool:
    """A validator that is a program."""

    name: str
    """What people call it."""
    arguments: tuple[str, ...]
    """Program and its arguments; the files are appended."""
    install: str
    """The line that installs it, or where to get it."""
    probe: tuple[str, ...] = ()
    """A line that succeeds only where the tool is complete, when finding the program is not enough."""

    def check(self, bundle: Path, *files: str) -> tuple[Validation, ...]:
        """One verdict a file. Runs in the bundle's folder, so that what is recorded names no other place.

        All files go in one call; only when that fails is each asked for by itself, to know which.
        """
        program = find_program(self.arguments[0])
        if program is None or not self._is_complete(bundle):
            reason = f"not installed: {self.install}"
            return tuple(self._verdict(file, Status.NOT_RUN, reason) for file in files)
        code, output = run([program, *self.arguments[1:], *files], bundle)
        if code == 0:
            lines = [shlex.join((*self.arguments, file)) for file in files]
            accepted = zip(files, lines, strict=True)
            return tuple(self._verdict(file, Status.PASSED, f"`{line}` accepts it") for file, line in accepted)
        if len(files) > 1:
            return tuple(row for file in files for row in self.check(bundle, file))
        said = " ".join(output.split())[:LONGEST_REASON] or "nothing"
        reason = f"`{shlex.join((*self.arguments, *files))}` ended with {code} and said: {said}"
        return (self._verdict(files[0], Status.FAILED, reason),)

    def _verdict(self, file: str, status: Status, reason: str) -> Validation:
        return Validation(file=file, tool=self.name, status=status, reason=reason)

    def _is_complete(self, bundle: Path) -> bool:
        if not self.probe:
            return True
        program = find_program(self.probe[0])
        return program is not None and run([program, *self.probe[1:]], bundle)[0] == 0


def find_program(name: str) -> str | None:
    """A program beside this interpreter (an environment that is not activated) or on PATH."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.is_file() else shutil.which(name)


def run(command: list[str], folder: Path) -> tuple[int, str]:
    """Exit code and output. A tool that does not end in time or does not start has failed."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=TIMEOUT_SECONDS,
            check=False,
            encoding="utf-8",
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 124, str(error)
    return done.returncode, done.stdout
