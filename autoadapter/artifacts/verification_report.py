"""What `test` proved: `report.json` and `report.html`."""

from enum import StrEnum
from typing import ClassVar

from pydantic import JsonValue, model_validator

from autoadapter.artifacts.base import Artifact, Frozen
from autoadapter.artifacts.finding import Finding
from autoadapter.artifacts.model_profile import Route


class Depth(StrEnum):
    """How much evidence `test` gathers."""

    SMOKE = "smoke"
    STANDARD = "standard"
    FULL = "full"


class Status(StrEnum):
    """A claim is one of these; there is no fourth."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not_run"


class Threshold(Frozen):
    """A limit that a measured value was held against."""

    name: str
    """Key in `measured`."""
    limit: float
    direction: str
    """`<=`, `>=` or `==`."""
    source: str


class CheckResult(Frozen):
    """One check's evidence."""

    name: str
    title: str
    status: Status
    reason: str
    """One sentence: what was seen, or why it was not run."""
    seconds: float
    measured: dict[str, JsonValue]
    thresholds: tuple[Threshold, ...]
    command: str
    """The line that repeats it."""

    @model_validator(mode="after")
    def _a_verdict_needs_evidence(self) -> "CheckResult":
        if self.status is not Status.NOT_RUN and not self.measured:
            raise ValueError(f"check {self.name} is {self.status} but measured nothing")
        return self


class Machine(Frozen):
    """Where it ran."""

    cpu: str
    cores: int
    memory_bytes: int
    gpus: tuple[str, ...]
    platform: str
    python: str


class EngineRun(Frozen):
    """One start of the engine during the stage."""

    role: str
    """`reference` (the unquantized checkpoint) or `candidate` (what will be served)."""
    vllm_version: str
    model_path: str
    cold_start_seconds: float
    kv_cache_tokens: int | None
    num_gpu_blocks: int | None
    log: str
    command: str


class VerificationReport(Artifact):
    """Evidence that a sceptic accepts."""

    file_name: ClassVar[str] = "report.json"
    stage: ClassVar[str] = "test"

    plan_digest: str
    optimized_digest: str
    depth: Depth
    started_at: str
    """ISO 8601, UTC."""
    route: Route
    machine: Machine
    engine_runs: tuple[EngineRun, ...]
    checks: tuple[CheckResult, ...]
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """No check failed and at least one passed: a report of nothing but `not_run` proves nothing."""
        statuses = [check.status for check in self.checks]
        return Status.FAILED not in statuses and Status.PASSED in statuses

    def check(self, name: str) -> CheckResult | None:
        """The result of one check by name."""
        return next((check for check in self.checks if check.name == name), None)
