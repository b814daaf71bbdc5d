"""Python, memory and disk."""

import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from autoadapter.doctor.remark import Remark, State
from autoadapter.hardware import usable_memory_bytes
from autoadapter.hardware.machine import cpu_name, gpu_names

GIB = 1024**3
OLDEST_PYTHON = (3, 11)
LITTLE_MEMORY_GIB = 8
LITTLE_DISK_GIB = 15
"""An engine's and a quantizer's environment take about 1.5 GB each, a converted 7B model 15 GB."""


def remarks() -> Iterator[Remark]:
    """What this machine brings."""
    yield _python()
    yield _processor()
    yield _memory(usable_memory_bytes())
    yield _disk(Path.cwd())


def _python() -> Remark:
    version = platform.python_version()
    if sys.version_info < OLDEST_PYTHON:
        fix = "python3.11 -m venv .venv && .venv/bin/pip install autoadapter"
        return Remark(name="python", state=State.PROBLEM, message=f"Python {version} is older than 3.11.", fix=fix)
    return Remark(name="python", state=State.OK, message=f"Python {version} at {sys.executable}")


def _processor() -> Remark:
    gpus = gpu_names()
    if gpus:
        return Remark(name="devices", state=State.OK, message=", ".join(gpus))
    return Remark(
        name="devices", state=State.NOTE, message=f"No NVIDIA GPU; the CPU is {cpu_name()}. Use --hardware cpu."
    )


def _memory(available: int) -> Remark:
    text = f"{available / GIB:.1f} GiB of memory"
    if available < LITTLE_MEMORY_GIB * GIB:
        fix = "Raise the container's memory limit, or plan on a larger machine: --hardware NAME"
        return Remark(name="memory", state=State.WARNING, message=f"{text}: models above 2B will not fit.", fix=fix)
    return Remark(name="memory", state=State.OK, message=text)


def _disk(folder: Path) -> Remark:
    free = shutil.disk_usage(folder).free
    text = f"{free / GIB:.1f} GiB free at {folder}"
    if free < LITTLE_DISK_GIB * GIB:
        fix = "Free some space, or work elsewhere: -w FOLDER"
        return Remark(name="disk", state=State.WARNING, message=f"{text}: below {LITTLE_DISK_GIB} GiB.", fix=fix)
    return Remark(name="disk", state=State.OK, message=text)
