"""Which architectures a vLLM serves, by version, as data."""

from autoadapter.engine.registry.architectures import (
    Registry,
    RegistryMatch,
    Row,
    first_serving,
    known_versions,
    registry_for,
)
from autoadapter.engine.registry.conditions import Condition
from autoadapter.engine.registry.rows import (
    Alias,
    BackendSignal,
    CpuGap,
    KnownIssue,
    aliases,
    backend_signals,
    cpu_gaps,
    cpu_head_sizes,
    known_issues,
    transformers_classes,
)

__all__ = [
    "Alias",
    "BackendSignal",
    "Condition",
    "CpuGap",
    "KnownIssue",
    "Registry",
    "RegistryMatch",
    "Row",
    "aliases",
    "backend_signals",
    "cpu_gaps",
    "cpu_head_sizes",
    "first_serving",
    "known_issues",
    "known_versions",
    "registry_for",
    "transformers_classes",
]
