"""How one device's memory divides: the numbers behind every memory bar, in text and in the report."""

from dataclasses import dataclass
from typing import Literal

from autoadapter.artifacts import LayoutSizing, Sizing

Kind = Literal["weights", "overhead", "uncertain", "KV", "free"]


@dataclass(frozen=True)
class Part:
    """A stretch of a device's memory, in bytes."""

    kind: Kind
    size: int


def memory_parts(sizing: Sizing, layout: LayoutSizing) -> tuple[Part, ...]:
    """Weights, overhead, what may be either overhead or KV pool, the KV pool, and what vLLM leaves alone.

    They sum up to the device unless the weights alone are larger. On a GPU `overhead` is the least it can be and
    `uncertain` the width of the KV pool's interval; on a CPU, where vLLM is given the pool's size, the overhead is what
    is likely.
    """
    device, terms = sizing.hardware.memory_bytes, [layout.activation, layout.non_torch, layout.graphs]
    likely = sum(term.likely for term in terms if term is not None)
    pool = layout.kv_pool
    if pool is None or sizing.hardware.kind == "cpu":
        overhead, uncertain, sure = likely, 0, max(pool.likely, 0) if pool else 0
    else:
        sure = max(pool.low, 0)
        uncertain = max(pool.high - sure, 0)
        overhead = max(int(device * sizing.gpu_memory_utilization) - layout.weight_bytes - sure - uncertain, 0)
    free = max(device - layout.weight_bytes - overhead - uncertain - sure, 0)
    return (
        Part("weights", layout.weight_bytes),
        Part("overhead", overhead),
        Part("uncertain", uncertain),
        Part("KV", sure),
        Part("free", free),
    )
