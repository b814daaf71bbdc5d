"""What a backend of `optimize` is: it judges, estimates and runs one way to rewrite a checkpoint."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from autoadapter.artifacts import Finding, Frozen, Hardware, ModelProfile, Scheme, StepRecord
from autoadapter.progress import Progress, silent


@dataclass(frozen=True)
class Judgement:
    """Whether a backend can do it, and why not."""

    ok: bool
    reason: str = ""


@dataclass(frozen=True)
class Job:
    """One checkpoint to rewrite."""

    profile: ModelProfile
    scheme: Scheme
    source: Path
    """Folder to read, or a GGUF file."""
    output: Path
    """Folder to fill; it exists and is empty, and is renamed by the caller when all is well."""
    logs: Path
    python: Path
    """Interpreter that has what the backend's worker imports."""
    calibration: Path
    samples: int
    trust_remote_code: bool = False
    progress: Progress = field(default=silent)


@dataclass(frozen=True)
class Made:
    """What a backend did."""

    step: StepRecord
    findings: tuple[Finding, ...] = ()


class Backend(Frozen, ABC):
    """A way to rewrite checkpoints. The fields of a subclass are its options, read from `Scheme.options`."""

    name: ClassVar[str]
    schemes: ClassVar[tuple[str, ...]]
    """Rows of `engine/schemes.yaml` that it makes."""
    environment: ClassVar[str | None] = None
    """Row of `data/environments.yaml` that it runs in; None runs in the engine's interpreter."""

    @abstractmethod
    def judge(self, profile: ModelProfile, hardware: Hardware, scheme: Scheme) -> Judgement:
        """Say whether this model can be rewritten for this hardware, before anything is loaded."""

    @abstractmethod
    def estimate(self, profile: ModelProfile, scheme: Scheme) -> int:
        """Bytes of the weights that `run` will write."""

    @abstractmethod
    def run(self, job: Job) -> Made:
        """Fill `job.output`.

        Raises:
            WorkerError: the tool failed, or did not do what it was asked.
        """
