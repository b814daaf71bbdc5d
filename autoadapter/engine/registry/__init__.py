"""Which architectures a vLLM serves, by version, as data."""

from autoadapter.engine.registry.loader import (
    Alias,
    CpuGap,
    MeasuredFallback,
    Registry,
    RegistryMatch,
    aliases,
    cpu_gaps,
    cpu_head_sizes,
    measured_fallbacks,
    registry_for,
)

__all__ = [
    "Alias",
    "CpuGap",
    "MeasuredFallback",
    "Registry",
    "RegistryMatch",
    "aliases",
    "cpu_gaps",
    "cpu_head_sizes",
    "measured_fallbacks",
    "registry_for",
]
