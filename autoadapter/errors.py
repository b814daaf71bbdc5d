"""Why AutoAdapter cannot go on: one tree, facts in fields, one sentence and one next command each.

Nothing here prints. `cli/` turns an error into words and an exit code; whoever imports AutoAdapter as a
library catches these types.
"""

from pathlib import Path
from typing import ClassVar


class AutoadapterError(Exception):
    """The root. `str(error)` is one clear sentence; `hint` is the next command or action to try."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class UserError(AutoadapterError):
    """The input or the usage is wrong; the user can mend it."""

    exit_code = 2


class ModelNotFoundError(UserError):
    """Neither a folder, a `.gguf` file nor a Hub id that answers."""


class BrokenCheckpointError(UserError):
    """A file of the checkpoint is truncated, foreign, or named by an index and absent."""

    def __init__(self, path: str | Path, problem: str, *, hint: str | None = None) -> None:
        super().__init__(f"{path}: {problem}.", hint=hint or "Download the file again, then repeat the command.")
        self.path = str(path)
        self.problem = problem


class WorkspaceError(UserError):
    """The workspace is missing, ambiguous, locked, or of another version."""


class VerificationFailedError(AutoadapterError):
    """A check or a rollout gate failed; the report has the evidence."""

    exit_code = 3


class UnsupportedModelError(AutoadapterError):
    """No proven route to the target engine."""

    exit_code = 4


class DoesNotFitError(AutoadapterError):
    """The model does not fit the hardware under any legal layout."""

    exit_code = 4

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        needed_bytes: int = 0,
        available_bytes: int = 0,
        smallest: str | None = None,
    ) -> None:
        """Say what is missing.

        Args:
            message: one clear sentence.
            hint: the next command.
            needed_bytes: weights on the fullest device under the smallest layout.
            available_bytes: memory of one device.
            smallest: `--hardware` that would fit, None when none in the catalogue does.
        """
        super().__init__(message, hint=hint)
        self.needed_bytes = needed_bytes
        self.available_bytes = available_bytes
        self.smallest = smallest


class MissingPartError(AutoadapterError):
    """A needed package or program is absent. `hint` is the line that installs it."""

    exit_code = 5

    def __init__(self, part: str, needed_for: str, *, install: str) -> None:
        super().__init__(f"{part} is needed for {needed_for} and is not installed.", hint=f"Install it: {install}")
        self.part = part
        self.install = install


class StorageError(AutoadapterError):
    """The disk is full or the folder cannot be written. Finished files are untouched."""


class ProcessError(AutoadapterError):
    """Another process ended with an error. Carries its last cause and the path of its log."""

    def __init__(
        self, message: str, *, cause: str | None = None, log: Path | None = None, hint: str | None = None
    ) -> None:
        why = f" Cause: {cause}" if cause else ""
        where = f" The whole log: {log}" if log else ""
        super().__init__(f"{message}{why}{where}", hint=hint)
        self.cause = cause
        self.log = log


class EngineError(ProcessError):
    """vLLM did not start, died, or answered wrongly."""


class WorkerError(ProcessError):
    """A worker process (quantizer, reference model) ended with an error."""


class InterruptedRunError(AutoadapterError):
    """The user stopped the run; what was finished is kept."""

    exit_code = 130
