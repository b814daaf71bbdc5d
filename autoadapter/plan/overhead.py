"""What a device needs beside weights and KV cache: activations, memory outside of torch, CUDA graphs. Estimates all.

Each is an interval with its provenance, by vLLM version, model runner and layout (`overheads.yaml`).
"""

from dataclasses import dataclass

from autoadapter.artifacts import Hardware, Interval, ModelProfile
from autoadapter.engine.target import DEFAULT_VLLM_VERSION
from autoadapter.engine.versions import within
from autoadapter.plan.activation import Batch, activation_bytes
from autoadapter.plan.legality import Layout
from autoadapter.plan.overhead_rows import ByLayout, OverheadRow, Runner, overhead_row

__all__ = ["GIB", "Batch", "Overhead", "model_runner", "overhead"]

GIB = 1024**3
CPU_PROCESSES = int(3.0 * GIB)
"""vLLM's three processes (API server, engine core, worker) without weights and KV cache.

Measured 1.8 GiB (proportional set size, vLLM 0.32 CPU, eager, 135M model); the rest is headroom for loading.
"""
CPU_SOURCE = "1.8 GiB measured on vLLM 0.32 CPU with a 135M model, and headroom; an estimate for other models"
NO_GRAPHS = Interval(low=0, likely=0, high=0, source="enforce-eager captures none")
V2_SPARSE = {"DeepseekV2ForCausalLM", "GraniteMoeForCausalLM", "Qwen2MoeForCausalLM"}
V2_FIRST: tuple[tuple[str, str, frozenset[str]], ...] = (
    ("0.22", "0.23", frozenset({"Qwen3ForCausalLM"})),
    ("0.23", "0.24", frozenset({"LlamaForCausalLM", "MistralForCausalLM", "Qwen3ForCausalLM"})),
    ("0.24", "0.25", frozenset({"LlamaForCausalLM", "MistralForCausalLM", "Qwen3ForCausalLM", *V2_SPARSE})),
)
"""Versions in which only these architectures had the second runner."""


@dataclass(frozen=True)
class Overhead:
    """The fullest stage's account, with intervals."""

    activation: tuple[Interval, ...]
    """Of each pipeline stage."""
    non_torch: Interval
    graphs: Interval
    reserves_graphs: bool
    """Whether vLLM takes the graphs off the KV pool before it is made."""
    source: str

    @property
    def stage_bytes(self) -> tuple[int, ...]:
        """What is likely to be taken off the KV pool of a rank of each stage, bytes."""
        reserved = self.graphs.likely if self.reserves_graphs else 0
        return tuple(self.non_torch.likely + reserved + peak.likely for peak in self.activation)

    @property
    def most_bytes(self) -> int:
        """The largest that it may be, by the intervals' upper ends."""
        reserved = self.graphs.high if self.reserves_graphs else 0
        return self.non_torch.high + reserved + max(peak.high for peak in self.activation)

    @property
    def total_bytes(self) -> int:
        """The largest of `stage_bytes`."""
        return max(self.stage_bytes)


def model_runner(profile: ModelProfile, version: str) -> Runner:
    """Which of vLLM's two model runners serves a model by default.

    Source: `config/vllm.py` `use_v2_model_runner` of vLLM 0.19 to 0.32: none before 0.22, dense models that are not
    hybrid and a few sparse ones from 0.25 on, all from 0.29 on.
    """
    if within(version, None, "0.22"):
        return "v1"
    if within(version, "0.29", None):
        return "v2"
    for since, until, architectures in V2_FIRST:
        if within(version, since, until):
            quantized = profile.quantization is not None and until != "0.25"
            return "v2" if profile.architecture in architectures and not quantized else "v1"
    if profile.state is not None:
        return "v1"
    return "v2" if profile.moe is None or profile.architecture in V2_SPARSE else "v1"


def overhead(
    profile: ModelProfile,
    hardware: Hardware,
    layout: Layout,
    batch: Batch,
    vllm_version: str = DEFAULT_VLLM_VERSION,
) -> Overhead:
    """Bytes beside weights and KV cache on one device."""
    row = overhead_row(vllm_version, model_runner(profile, vllm_version))
    peaks = activation_bytes(profile, layout, batch, row)
    if hardware.kind == "cpu":
        return _on_cpu(peaks)
    return Overhead(
        activation=tuple(_around(peak, row.spread.activation, row, hardware, layout) for peak in peaks),
        non_torch=_around(int(_by_layout(row.non_torch, layout) * GIB), row.spread.non_torch, row, hardware, layout),
        graphs=_graphs(profile, hardware, layout, row) if batch.graphs else NO_GRAPHS,
        reserves_graphs=row.reserves_graphs,
        source=_source(row, hardware, layout),
    )


def _on_cpu(peaks: tuple[int, ...]) -> Overhead:
    processes = Interval(low=int(1.8 * GIB), likely=CPU_PROCESSES, high=2 * CPU_PROCESSES, source=CPU_SOURCE)
    none = Interval(low=0, likely=0, high=0, source="no CUDA graphs on a CPU")
    activation = tuple(Interval(low=0, likely=peak, high=2 * peak, source=CPU_SOURCE) for peak in peaks)
    return Overhead(activation, processes, none, False, CPU_SOURCE)


def _around(likely: int, spread_gib: float, row: OverheadRow, hardware: Hardware, layout: Layout) -> Interval:
    half = int(spread_gib * GIB * (1 if row.covers(hardware.name, layout.tensor) else 2))
    return Interval(low=max(0, likely - half), likely=likely, high=likely + half, source=_source(row, hardware, layout))


def _source(row: OverheadRow, hardware: Hardware, layout: Layout) -> str:
    covered = (
        "" if row.covers(hardware.name, layout.tensor) else f"; not measured on {hardware.name} TP {layout.tensor}"
    )
    return f"{row.source}; model runner {row.runner}{covered}"


def _by_layout(sizes: ByLayout, layout: Layout) -> float:
    if layout.tensor > 1:
        return sizes.tensor
    return sizes.stages if layout.pipeline > 1 else sizes.alone


def _graphs(profile: ModelProfile, hardware: Hardware, layout: Layout, row: OverheadRow) -> Interval:
    size = row.graphs
    stage = -(-profile.structure.num_layers // layout.pipeline)
    likely = size.alone + size.per_layer * stage
    likely += (size.experts if profile.moe else 0) + (size.tensor if layout.tensor > 1 else 0)
    return _around(int(likely * GIB), size.spread, row, hardware, layout)
