"""What the doctor says."""

from enum import StrEnum

from autoadapter.artifacts import Frozen


class State(StrEnum):
    """How bad it is, for the user."""

    OK = "ok"
    NOTE = "note"  # worth knowing; nothing to do
    WARNING = "warning"  # something will work worse
    PROBLEM = "problem"  # something will not work


class Remark(Frozen):
    """One thing that was examined."""

    name: str
    state: State
    message: str
    fix: str | None = None
    """The line to type."""


class Report(Frozen):
    """All remarks of one examination."""

    remarks: tuple[Remark, ...]

    @property
    def healthy(self) -> bool:
        """Nothing will fail for a reason that the doctor knows."""
        return all(remark.state is not State.PROBLEM for remark in self.remarks)
