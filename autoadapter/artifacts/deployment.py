"""What `deploy` hands over: `bundle/bundle.json`, and the record of a running server."""

from enum import StrEnum
from typing import ClassVar

from autoadapter.artifacts.base import Artifact, Frozen
from autoadapter.artifacts.finding import Finding
from autoadapter.artifacts.verification_report import Status


class Target(StrEnum):
    """Where the bundle is meant to run."""

    LOCAL = "local"
    COMPOSE = "compose"
    KUBERNETES = "kubernetes"


class BundleFile(Frozen):
    """A file of the bundle."""

    path: str
    bytes: int
    sha256: str


class Evidence(Frozen):
    """A claim about the bundle and how far it is true."""

    claim: str
    status: Status
    reason: str
    command: str | None = None
    """The line that made the evidence."""


class Validation(Frozen):
    """A validator that read a file of the bundle."""

    file: str
    tool: str
    status: Status
    reason: str


class WeightsRef(Frozen):
    """Weights by reference: where they are and what they must hash to."""

    path: str
    files: tuple[BundleFile, ...]


class Deployment(Artifact):
    """The bundle's manifest."""

    file_name: ClassVar[str] = "bundle.json"
    stage: ClassVar[str] = "deploy"

    model: str
    revision: str | None
    plan_digest: str
    report_digest: str | None
    """None when no report exists; then the evidence says so."""
    vllm_version: str
    targets: tuple[Target, ...]
    weights: WeightsRef
    files: tuple[BundleFile, ...]
    commands: dict[str, str]
    """`local.up`, `kubernetes.status`, …: target and verb → what an operator types in the bundle's folder."""
    undo: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    validations: tuple[Validation, ...]
    findings: tuple[Finding, ...]


class LocalServer(Artifact):
    """A server that `deploy --up` started: `server.json`."""

    file_name: ClassVar[str] = "server.json"
    stage: ClassVar[str] = "deploy"

    process_group: int
    started_at: str
    process_start_ticks: int
    """Start time of the leader in clock ticks since boot (`/proc/PID/stat`): tells a reused pid from ours."""
    host: str
    port: int
    served_name: str
    bundle: str
    log: str
