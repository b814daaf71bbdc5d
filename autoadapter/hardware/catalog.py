"""`--hardware NAME[:COUNT]` → what the planner needs to know of it."""

import difflib
import re
from functools import cache
from pathlib import Path

import yaml

from autoadapter.artifacts import Frozen, Hardware
from autoadapter.errors import UserError
from autoadapter.hardware.machine import usable_memory_bytes

GIB = 1024**3
MOST_DEVICES = 1024


class Gpu(Frozen):
    """A row of `gpus.yaml`."""

    name: str
    vendor: str
    memory_gib: float
    """Total as the driver reports it, GiB."""
    compute_capability: str
    bandwidth_gb_s: float
    """HBM or GDDR bandwidth, 1e9 bytes per second."""
    bf16_tflops: float
    """Dense 16-bit matrix rate, 1e12 FLOP/s."""
    fp8_tflops: float | None = None
    source: str


@cache
def gpus() -> tuple[Gpu, ...]:
    """All rows, in the file's order."""
    rows = yaml.safe_load(Path(__file__).with_name("gpus.yaml").read_text())
    return tuple(Gpu.model_validate(row) for row in rows)


def parse_hardware(text: str) -> Hardware:
    """`cpu`, `h200`, `h200:8` → Hardware.

    Raises:
        UserError: unknown name (the nearest is suggested) or a count that makes no sense.
    """
    match = re.fullmatch(r"([a-z0-9-]+)(?::(\d+))?", text.strip().lower())
    name, count = (match[1], int(match[2] or 1)) if match else (text, 1)
    if not 1 <= count <= MOST_DEVICES:
        raise UserError(f"{count} devices in --hardware {text!r} make no sense.", hint="Example: --hardware h200:8")
    if name == "cpu" and count != 1:
        raise UserError(f"--hardware {text!r}: a CPU machine has no count.", hint="--hardware cpu")
    if name == "cpu":
        memory, source = usable_memory_bytes(), "memory of this machine (cgroup or /proc/meminfo)"
        return Hardware(name="cpu", kind="cpu", count=1, memory_bytes=memory, source=source)
    row = next((gpu for gpu in gpus() if gpu.name == name), None)
    if match is None and any(gpu.name == text.partition(":")[0].strip().lower() for gpu in gpus()):
        raise UserError(f"In --hardware {text!r} the count is no number.", hint="Example: --hardware h200:8")
    if row is None:
        raise _unknown(text, name)
    return Hardware(
        name=row.name,
        kind="cuda",
        count=count,
        memory_bytes=int(row.memory_gib * GIB),
        compute_capability=row.compute_capability,
        source=f"hardware/gpus.yaml#{row.name}",
    )


def _unknown(text: str, name: str) -> UserError:
    known = ["cpu", *(gpu.name for gpu in gpus())]
    near = difflib.get_close_matches(name, known, n=1)
    question = f" Did you mean {near[0]}?" if near else ""
    hint = f"Known: {', '.join(known)}; a count follows a colon: h200:8"
    return UserError(f"Unknown hardware {text!r}.{question}", hint=hint)
