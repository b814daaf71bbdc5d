"""CPU, memory and shared memory of one replica: estimates from the plan, never measurements."""

import math
from dataclasses import dataclass

from autoadapter.deploy.facts import GIB, Facts

SERVER_GIB = 4
"""API server, tokenizer and engine core."""
RANK_GIB = 6
"""Host side of one CUDA worker: libraries, driver context, pinned staging buffers."""
CPU_RUNTIME_GIB = 2
"""torch and vLLM in memory, on top of what the CPU plan counts."""


@dataclass(frozen=True)
class Resources:
    """What a scheduler must set aside."""

    cpus: int
    request_gib: int
    """What the processes hold, shared memory included."""
    limit_gib: int
    """Room for the page cache of one read of the weights on top: a restart then reads from memory."""
    shm_gib: int


def resources(facts: Facts) -> Resources:
    """Estimate what one replica takes.

    Cores on GPUs: one API server, one engine core a data-parallel rank, one worker a GPU (vLLM docs, "CPU Resources for
    GPU Deployments": at least 2 + N physical cores). Memory on a CPU: the plan's own sum.
    Shared memory: 2 GiB for one rank, 8 GiB for several (vLLM's Kubernetes guide uses 2 to 8).
    """
    shm = 2 if facts.ranks == 1 else 8
    on_gpu = facts.gpus > 0
    held = SERVER_GIB + RANK_GIB * facts.gpus if on_gpu else CPU_RUNTIME_GIB + _cpu_plan_gib(facts)
    weights = math.ceil(sum(file.bytes for file in facts.weights.files) / GIB)
    computed = 1 + facts.plan.parallelism.data_parallel_size + facts.gpus if on_gpu else facts.cpu_cores
    return Resources(facts.site.cpus or computed, held + shm, held + shm + weights, shm)


def _cpu_plan_gib(facts: Facts) -> int:
    memory = facts.plan.memory
    return math.ceil((memory.weight_bytes + memory.overhead_bytes + memory.kv_pool_bytes) * facts.ranks / GIB)
