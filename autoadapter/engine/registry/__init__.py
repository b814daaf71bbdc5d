"""Which architectures a vLLM serves, by version, as data."""

from autoadapter.engine.registry.architectures import (
    Registry,
    RegistryMatch,
    Row,
    first_serving,
    known_versions,
    registry_for,
    serving_version,
)
from autoadapter.engine.registry.conditions import Condition
from autoadapter.engine.registry.config_classes import (
    accepted_kinds,
    bare_class,
    checked_fields,
    classes_source,
    generating_class,
    is_checked,
    is_encoder_decoder,
    known_layer_types,
)
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
from autoadapter.engine.registry.written_code import WrittenCode, written_code

__all__ = [
    "Alias",
    "BackendSignal",
    "Condition",
    "CpuGap",
    "KnownIssue",
    "Registry",
    "RegistryMatch",
    "Row",
    "WrittenCode",
    "accepted_kinds",
    "aliases",
    "backend_signals",
    "bare_class",
    "checked_fields",
    "classes_source",
    "cpu_gaps",
    "cpu_head_sizes",
    "first_serving",
    "generating_class",
    "is_checked",
    "is_encoder_decoder",
    "known_issues",
    "known_layer_types",
    "known_versions",
    "registry_for",
    "serving_version",
    "transformers_classes",
    "written_code",
]
