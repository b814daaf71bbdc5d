"""Is this machine fit for AutoAdapter? One file a group of checks; each remark ends in the line that mends it."""

from pathlib import Path

from autoadapter.doctor import cuda, engine, machine
from autoadapter.doctor.remark import Remark, Report, State

__all__ = ["Remark", "Report", "State", "examine"]


def examine(engine_python: Path | None = None) -> Report:
    """Look at Python, engine, CUDA, memory, disk, extras and the quantizers' environments."""
    remarks = [*machine.remarks(), *engine.remarks(engine_python), *cuda.remarks(engine_python)]
    return Report(remarks=tuple(remarks))
