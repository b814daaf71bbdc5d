"""This machine, from /proc and the cgroup: no import beyond the standard library."""

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from autoadapter.artifacts.verification_report import Machine

_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def usable_memory_bytes() -> int:
    """Physical memory, or the cgroup's limit where it is lower."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([total, *(limit for path in _CGROUP_LIMITS if (limit := _read_limit(Path(path))))])


def _read_limit(path: Path) -> int | None:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def gpu_names() -> tuple[str, ...]:
    """Products that `nvidia-smi` lists; empty without a driver."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    query = [program, "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(
            query, capture_output=True, text=True, errors="replace", timeout=20, check=True, encoding="utf-8"
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(line.strip() for line in done.stdout.splitlines() if line.strip())


def cpu_name() -> str:
    """The processor's product name."""
    try:
        match = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        match = None
    return match[1] if match else platform.machine()


def this_machine() -> Machine:
    """What a report says about where it ran."""
    return Machine(
        cpu=cpu_name(),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=usable_memory_bytes(),
        gpus=gpu_names(),
        platform=platform.platform(),
        python=platform.python_version(),
    )
