"""What `vllm serve` takes by default where nobody says otherwise."""

from autoadapter.artifacts import Hardware
from autoadapter.engine.versions import within
from autoadapter.plan.activation import Batch

GIB = 1024**3
CPU_SHARE = 0.9
"""Part of a CPU machine's memory that the server may take; the rest is for the system."""
LARGE_GIB, LARGEST_GIB = 70, 160
CPU_BATCH = Batch(max_num_seqs=128, max_num_batched_tokens=2048, graphs=False)


def default_batch(hardware: Hardware, vllm_version: str) -> Batch:
    """`max-num-seqs` and `max-num-batched-tokens` of the API server.

    Source: vLLM 0.32 `engine/arg_utils.py` `get_batch_defaults`; before 0.29 B200's memory made no difference.
    """
    if hardware.kind == "cpu":
        return CPU_BATCH
    size = hardware.memory_bytes / GIB
    if size >= LARGEST_GIB and within(vllm_version, "0.29", None):
        return Batch(max_num_seqs=1024, max_num_batched_tokens=16384, graphs=True)
    if size >= LARGE_GIB and not hardware.name.startswith("a100"):
        return Batch(max_num_seqs=1024, max_num_batched_tokens=8192, graphs=True)
    return Batch(max_num_seqs=256, max_num_batched_tokens=2048, graphs=True)


def default_utilization(vllm_version: str) -> float:
    """`gpu-memory-utilization`: 0.92 since 0.20, 0.9 before. Source: `config/cache.py` of vLLM 0.19 and 0.32."""
    return 0.92 if within(vllm_version, "0.20", None) else 0.9
