"""Driver, CUDA of torch, and `ptxas`: pairs that fail late and with riddles."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from autoadapter.doctor.remark import Remark, State
from autoadapter.engine.target import engine_packages, find_engine
from autoadapter.errors import AutoadapterError

FIRST_WITH_SUFFIX = 9.0
"""From Hopper on, Triton asks for the architecture-specific target: `sm_90a`."""

_FIND_TRITON_PTXAS = """
import importlib.util, pathlib
spec = importlib.util.find_spec("triton")
print(next(pathlib.Path(spec.origin).parent.rglob("ptxas*"), "") if spec and spec.origin else "")
"""


def remarks(python: Path | None) -> Iterator[Remark]:
    """Nothing to say on a machine without an NVIDIA driver."""
    query = _ask(["nvidia-smi", "--query-gpu=compute_cap,driver_version", "--format=csv,noheader"])
    header = _ask(["nvidia-smi"])
    if not query or not header:
        return
    capability, _, driver = query.splitlines()[0].partition(", ")
    found = re.search(r"CUDA Version: (\d+)\.(\d+)", header)
    supported = (int(found[1]), int(found[2])) if found else None
    reach = f", CUDA up to {found[1]}.{found[2]}" if found else ""
    yield Remark(name="driver", state=State.OK, message=f"driver {driver}{reach}")
    try:
        interpreter = find_engine(python).python
        torch = engine_packages(interpreter).get("torch", "")
    except AutoadapterError:
        return
    if supported and (built := cuda_of_torch(torch)):
        yield judge_driver(supported, built, torch)
    program = _ptxas(interpreter)
    if program:
        yield judge_ptxas(program, _ask([program, "--help"]) or "", capability.strip())


def cuda_of_torch(version: str) -> tuple[int, int] | None:
    """CUDA that a torch build was made with, from its local version: `2.11.0+cu129` → (12, 9)."""
    found = re.search(r"\+cu(\d+)(\d)$", version)
    return (int(found[1]), int(found[2])) if found else None


def judge_driver(supported: tuple[int, int], built: tuple[int, int], torch: str) -> Remark:
    """Minor versions are compatible within a major (CUDA compatibility guide); an older major is not enough."""
    have, want = ".".join(map(str, supported)), ".".join(map(str, built))
    if supported[0] >= built[0]:
        return Remark(
            name="cuda", state=State.OK, message=f"torch {torch} (CUDA {want}) runs on a driver for CUDA {have}"
        )
    return Remark(
        name="cuda",
        state=State.PROBLEM,
        message=f"torch {torch} needs CUDA {want}, the driver stops at {have}.",
        fix="Update the NVIDIA driver, or install a torch built for the driver's CUDA.",
    )


def judge_ptxas(program: str, help_text: str, capability: str) -> Remark:
    """Whether the assembler that Triton will call knows this GPU.

    Args:
        program: path of ptxas.
        help_text: what `ptxas --help` prints; it lists the values of `--gpu-name`.
        capability: compute capability of the GPU, `9.0`.
    """
    suffix = "a" if float(capability) >= FIRST_WITH_SUFFIX else ""
    name = f"sm_{capability.replace('.', '')}{suffix}"
    known = set(re.findall(r"sm_\d+[a-z]?", help_text))
    if not known or name in known:
        return Remark(name="ptxas", state=State.OK, message=f"{program} knows {name}")
    return Remark(
        name="ptxas",
        state=State.PROBLEM,
        message=f"{program} does not know {name}: kernels will fail with \"Value '{name}' is not defined\".",
        fix="export TRITON_PTXAS_PATH=/usr/local/cuda/bin/ptxas PATH=/usr/local/cuda/bin:$PATH   (a newer toolkit's)",
    )


def _ptxas(python: Path) -> str | None:
    """The ptxas that Triton would call: TRITON_PTXAS_PATH, its own copy, or the one in PATH."""
    return os.environ.get("TRITON_PTXAS_PATH") or _ask([str(python), "-c", _FIND_TRITON_PTXAS]) or shutil.which("ptxas")


def _ask(command: list[str]) -> str | None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=60, check=True, encoding="utf-8"
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
