"""Reads `overheads.yaml`: coefficients of vLLM's memory beside weights and KV cache."""

from functools import cache
from pathlib import Path
from typing import Literal

from autoadapter.artifacts import Frozen
from autoadapter.engine.versions import within
from autoadapter.tables import read_table

Runner = Literal["v1", "v2"]


class ByLayout(Frozen):
    """GiB by what a layout needs: one device, pipeline stages only, or tensor parallelism."""

    alone: float
    stages: float
    tensor: float


class Graphs(Frozen):
    """GiB of CUDA graphs: a base, what experts and tensor parallelism add, and a part that grows with the layers."""

    alone: float
    experts: float
    tensor: float
    per_layer: float
    spread: float


class Spread(Frozen):
    """Half widths of intervals, GiB."""

    activation: float
    non_torch: float


class OverheadRow(Frozen):
    """One version range of one model runner."""

    runner: Runner
    since: str | None = None
    until: str | None = None
    """First version that the row does not hold for."""
    sampler_bytes_per_logit: float
    """Peak of the sampler's dummy run, per vocabulary entry and sequence."""
    head_copy: bool
    """Whether the profile run holds a second copy of the output head."""
    expert_workspace: bool
    """Whether the buffers of the experts outlive the layer."""
    unpacked_experts: tuple[str, ...]
    """Quantizations whose experts need no such buffers."""
    non_torch: ByLayout
    graphs: Graphs
    reserves_graphs: bool
    spread: Spread
    starts: int
    """Measured starts that the row was learned from."""
    devices: tuple[str, ...]
    """Where they ran."""
    largest_tensor: int
    """Largest tensor-parallel size among them."""
    source: str

    def covers(self, device: str, tensor: int) -> bool:
        """Whether starts on such a device and of such a size were among them; a guess speaks of all alike."""
        return not self.starts or (device in self.devices and tensor <= self.largest_tensor)


@cache
def overhead_rows() -> tuple[OverheadRow, ...]:
    """All rows, in the file's order."""
    rows = read_table(Path(__file__).with_name("overheads.yaml"))
    return tuple(OverheadRow.model_validate(row) for row in rows)


def overhead_row(version: str, runner: Runner) -> OverheadRow:
    """The row of a version and a model runner."""
    return next(row for row in overhead_rows() if row.runner == runner and within(version, row.since, row.until))
