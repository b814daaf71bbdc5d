"""Standard output and error as they are found: full, closed, or of a terminal that lacks letters."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from autoadapter.cli.output import Out
from autoadapter.errors import AutoadapterError, StorageError


class ResultStream(io.TextIOWrapper):
    """Standard output that tells in one sentence when it takes nothing more; a closed pipe is left to the caller."""

    def write(self, text: str, /) -> int:
        """See `io.TextIOWrapper`.

        Raises:
            StorageError: the first time that the system refuses; from then on everything is dropped.
        """
        with self._told():
            return super().write(text)

    def flush(self) -> None:
        """See `write`."""
        if not self.closed:
            with self._told():
                super().flush()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            if isinstance(error, BrokenPipeError):
                raise
            raise _lost(error.strerror or str(error)) from error


def prepare_streams() -> None:
    """Letters that a stream's encoding lacks become `?`; what cannot be printed ends in a sentence.

    Raises:
        SystemExit: standard output is closed.
    """
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(errors="replace")
    if sys.stdout is None:
        sys.stdout = sys.stderr
        leave(_lost("it is closed"))
    if isinstance(sys.stdout, io.TextIOWrapper):
        encoding, screen = sys.stdout.encoding, sys.stdout.line_buffering
        sys.stdout = ResultStream(sys.stdout.detach(), encoding, errors="replace", line_buffering=screen)


def _lost(why: str) -> StorageError:
    hint = "Repeat the command with its output sent to a file on a disk with room: > FILE"
    return StorageError(f"Standard output could not be written: {why}.", hint=hint)


def leave(end: int | AutoadapterError) -> NoReturn:
    """End the process, once its last words are out.

    Args:
        end: the exit code, or an error that nobody has told yet.
    """
    code = 1
    try:
        if isinstance(end, AutoadapterError):
            raise end
        code = end or 1
        sys.stdout.flush()
        code = end
    except BrokenPipeError:
        pass
    except AutoadapterError as error:
        Out(as_json=False).error(error)
        code = error.exit_code
    sys.exit(code)
