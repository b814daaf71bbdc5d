"""`--hardware NAME[:COUNT]` → what the planner needs to know of it."""

import difflib
import re
from functools import cache
from pathlib import Path
from typing import Literal

from autoadapter.artifacts import Frozen, Hardware
from autoadapter.errors import UserError
from autoadapter.hardware.machine import usable_memory_bytes
from autoadapter.tables import read_table

GIB = 1024**3
OLDEST_CAPABILITY = (7, 5)
"""Turing. CUDA 13, which vLLM 0.25 and newer are built for, dropped Volta."""
MOST_DEVICES = 1024


Rate = Literal["bf16", "fp8", "int8", "fp4"]
"""Matrix units that a datasheet rates apart; `bf16` stands for every 16-bit float."""


class Interconnect(Frozen):
    """What joins devices of one machine."""

    kind: Literal["nvlink", "pcie", "none"]
    gb_s: float
    """1e9 bytes per second and device, one direction."""
    island: int
    """Devices that it joins."""


class Gpu(Frozen):
    """A row of `gpus.yaml`."""

    name: str
    vendor: str
    memory_gib: float
    """Total as the driver reports it, GiB."""
    compute_capability: str
    sm_count: int
    """Streaming multiprocessors."""
    bandwidth_gb_s: float
    """HBM or GDDR bandwidth, 1e9 bytes per second."""
    bf16_tflops: float
    """Dense 16-bit matrix rate, 1e12 FLOP/s."""
    fp8_tflops: float | None = None
    """None where there is no FP8 matrix unit; likewise below."""
    int8_tflops: float | None = None
    fp4_tflops: float | None = None
    interconnect: Interconnect
    source: str

    @property
    def capability(self) -> tuple[int, int]:
        """Compute capability as numbers: (9, 0)."""
        major, _, minor = self.compute_capability.partition(".")
        return int(major), int(minor)

    @property
    def is_served(self) -> bool:
        """Whether vLLM's wheels hold code for it."""
        return self.capability >= OLDEST_CAPABILITY

    def flops_per_second(self, rate: Rate) -> float:
        """Datasheet rate in FLOP/s; the 16-bit rate where the device has no such unit."""
        rates = {"bf16": self.bf16_tflops, "fp8": self.fp8_tflops, "int8": self.int8_tflops, "fp4": self.fp4_tflops}
        return (rates[rate] or self.bf16_tflops) * 1e12


@cache
def gpus() -> tuple[Gpu, ...]:
    """All rows, in the file's order."""
    rows = read_table(Path(__file__).with_name("gpus.yaml"))
    return tuple(Gpu.model_validate(row) for row in rows)


def gpu_of(hardware: Hardware) -> Gpu | None:
    """The catalogue's row of planned hardware; None for a CPU and for what the catalogue does not list."""
    return next((row for row in gpus() if row.name == hardware.name), None) if hardware.kind == "cuda" else None


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
    count = f":{text.partition(':')[2].strip()}" if ":" in text else ""
    command = f"autoadapter COMMAND … --hardware {near[0]}{count}   (known: " if near else "Known: "
    hint = f"{command}{', '.join(known)}; a count follows a colon: h200:8{')' if near else ''}"
    return UserError(f"Unknown hardware {text!r}.{question}", hint=hint)
