"""What a deployment target contributes to a bundle."""

from pathlib import Path
from typing import Protocol

from autoadapter.artifacts import Evidence, Finding, Target, Validation
from autoadapter.deploy.facts import Facts


class DeployTarget(Protocol):
    """One file of `targets/`. All methods but `validate` are pure."""

    @property
    def target(self) -> Target:
        """Which one it is."""

    def files(self, facts: Facts) -> dict[str, str]:
        """Path in the bundle → text."""

    def commands(self, facts: Facts) -> dict[str, str]:
        """`up`, `down`, `status`, `smoke` → the line to type in the bundle's folder."""

    def rollback(self, facts: Facts) -> tuple[str, ...]:
        """Lines that bring back what ran before."""

    def undo(self, facts: Facts) -> tuple[str, ...]:
        """Lines that remove what `up` made."""

    def evidence(self, facts: Facts) -> Evidence:
        """Whether this target was seen running."""

    def findings(self, facts: Facts) -> tuple[Finding, ...]:
        """What an operator must know before `up`."""

    def validate(self, bundle: Path) -> tuple[Validation, ...]:
        """Let the target's own validators read the written files."""
