"""Whether this machine can hold the float32 reference."""

from pathlib import Path

from autoadapter.artifacts import ModelProfile
from autoadapter.hardware.machine import usable_memory_bytes

FP32_BYTES = 4
HEADROOM = 1.25
"""Activations and float32 logits beside the weights: an estimate."""
GIB = 2**30


def available_bytes() -> int:
    """Memory that a new process can take without swapping, at most the cgroup's limit."""
    text = Path("/proc/meminfo").read_text(encoding="utf-8")
    free = next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("MemAvailable:"))
    return min(free, usable_memory_bytes())


def reference_too_large(profile: ModelProfile) -> str | None:
    """Why transformers cannot compute the reference here, None when it can."""
    needed = int(profile.tensors.parameters * FP32_BYTES * HEADROOM)
    free = available_bytes()
    if needed <= free:
        return None
    return (
        f"the float32 reference in transformers needs about {needed / GIB:.0f} GiB of memory "
        f"and {free / GIB:.0f} GiB are free on this machine"
    )
