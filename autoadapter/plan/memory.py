"""Whether it fits: weights, overhead and KV cache on the fullest device.

The cache is laid out as vLLM lays it out (`plan/kv`). `kv_tokens` is the tokens that a replica holds in requests of
`max-model-len`, concurrency × max-model-len, which is what vLLM 0.21 and newer print; where all layers keep every token
older versions print the same but for a block.
"""

import math
from dataclasses import dataclass
from functools import cached_property

from autoadapter.artifacts import Hardware, MemoryBudget, ModelProfile, Scheme, Workload
from autoadapter.plan.kv import KvLayout, KvQuestion, kv_layout
from autoadapter.plan.legality import Layout
from autoadapter.plan.overhead import GIB, Batch, Overhead, overhead
from autoadapter.plan.weights import is_estimated, stage_weights

CPU_POOL_SHARE = 0.25
"""Largest part of the memory for the KV cache on a CPU: vLLM holds the pool against one NUMA node's free memory."""
UNBOUNDED = 1 << 30
"""Tokens; a request that long fits only where nothing grows with it."""


@dataclass(frozen=True)
class CacheFlags:
    """What the user said of the cache, by the names of vLLM's options."""

    block_size: int | None = None
    decode_context_parallel: int = 1
    prefix_caching: bool = True
    hybrid_manager: bool = True
    async_scheduling: bool = True
    speculative_tokens: int = 0


@dataclass(frozen=True)
class Situation:
    """One candidate: everything that the memory depends on."""

    profile: ModelProfile
    hardware: Hardware
    scheme: Scheme
    layout: Layout
    batch: Batch
    utilization: float
    kv_dtype: str
    cache: CacheFlags = CacheFlags()
    vllm_version: str = "0.32.0"

    @cached_property
    def question(self) -> KvQuestion:
        """What the cache depends on beside the structure."""
        return KvQuestion(
            max_model_len=self.profile.max_model_len,
            max_num_batched_tokens=self.batch.max_num_batched_tokens,
            tensor_parallel=self.layout.tensor,
            pipeline_parallel=self.layout.pipeline,
            decode_context_parallel=self.cache.decode_context_parallel,
            kv_cache_dtype=self.kv_dtype,
            model_dtype="float32" if self.profile.memory.served_dtype in ("float32", "F32") else "bfloat16",
            block_size=self.cache.block_size,
            device=self.hardware.kind,
            prefix_caching=self.cache.prefix_caching,
            hybrid_manager=self.cache.hybrid_manager,
            speculative_tokens=self.cache.speculative_tokens,
            async_scheduling=self.cache.async_scheduling,
            vllm_version=self.vllm_version,
        )

    @cached_property
    def kv(self) -> KvLayout:
        """Groups and blocks of the cache.

        Raises:
            KvRefusedError: vLLM would refuse these layers under these flags.
        """
        return kv_layout(self.profile.structure, self.question)

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of KV cache that one token takes on one device, in all layers, before any of it slides away."""
        return self.kv.token_bytes

    def request_bytes(self, tokens: int) -> int:
        """Bytes that one request of so many tokens takes on one device: KV cache and recurrent state, whole blocks."""
        return self.kv.request_bytes(tokens)

    @property
    def room(self) -> int:
        """Bytes that are left for KV cache and recurrent state; negative when the weights alone do not fit."""
        return int(self.hardware.memory_bytes * self.utilization) - self.fixed_bytes

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """Bytes of weights on a rank of each pipeline stage."""
        return stage_weights(self.profile, self.scheme, self.layout)

    @cached_property
    def extra(self) -> Overhead:
        """What a device needs beside weights and cache."""
        return overhead(self.profile, self.hardware, self.layout, self.batch, self.vllm_version)

    @property
    def fixed_bytes(self) -> int:
        """Weights and overhead on the fullest device."""
        return max(weight + more for weight, more in zip(self.weights, self.extra.stage_bytes, strict=True))


def kv_pool(situation: Situation, workload: Workload, max_model_len: int) -> int:
    """Bytes of the KV pool: all the room on a GPU; on a CPU what the workload needs, in whole GiB, at least one."""
    if situation.hardware.kind == "cuda":
        return max(0, situation.room)
    per_request = min(workload.input_len + workload.output_len, max_model_len)
    busy = workload.concurrency * situation.request_bytes(per_request)
    one = situation.kv.needed_bytes(max_model_len)
    cap = max(int(situation.hardware.memory_bytes * CPU_POOL_SHARE), one)
    wanted = math.ceil(max(min(busy, cap), one) / GIB)
    return min(wanted, max(0, situation.room // GIB)) * GIB


def longest_request(situation: Situation, pool: int) -> int:
    """Tokens that one request may have with the pool to itself; the model's limit where nothing grows with them."""
    longest = situation.kv.longest(pool, UNBOUNDED)
    return situation.profile.max_model_len if longest == UNBOUNDED else longest


def budget(situation: Situation, workload: Workload, max_model_len: int) -> MemoryBudget:
    """The whole account of the fullest device."""
    pool = kv_pool(situation, workload, max_model_len)
    tokens = pool_tokens(situation, pool, max_model_len)
    return MemoryBudget(
        device_bytes=situation.hardware.memory_bytes,
        weight_bytes=max(situation.weights),
        overhead_bytes=situation.fixed_bytes - max(situation.weights),
        kv_pool_bytes=pool,
        kv_bytes_per_token=situation.kv_bytes_per_token,
        kv_tokens=tokens,
        max_concurrency=round(tokens / max_model_len, 2),
        provenance=_provenance(situation, situation.extra.source),
    )


def pool_tokens(situation: Situation, pool: int, length: int) -> int:
    """Tokens that a pool holds in requests of `length` tokens.

    The length matters where layers slide or keep a state; elsewhere every token costs the same but for whole blocks.
    """
    kv = situation.kv
    if not kv.groups:
        return situation.batch.max_num_seqs * length
    return int(kv.blocks(pool) / kv.blocks_for(length) * length)


def _token_source(situation: Situation) -> str:
    kv = situation.kv
    groups = f" and {len(kv.groups)} groups of layers" if len(kv.groups) > 1 else ""
    return f"pool in blocks of {kv.block_size} tokens{groups}, as vLLM {situation.vllm_version} lays them out"


def _provenance(situation: Situation, overhead_source: str) -> dict[str, str]:
    share = f"{situation.utilization:g} of the device less weights and overhead"
    size = "estimate from the configuration" if is_estimated(situation.profile) else "profile: served bytes"
    cpu = f"what the workload needs, in whole GiB, at most {CPU_POOL_SHARE:g} of the memory where one request allows"
    return {
        "device_bytes": situation.hardware.source,
        "weight_bytes": f"{size} under {situation.scheme.name}, spread over {situation.layout.text}",
        "overhead_bytes": overhead_source,
        "kv_pool_bytes": share if situation.hardware.kind == "cuda" else cpu,
        "kv_bytes_per_token": f"profile: caches of all layers, KV cache dtype {situation.kv_dtype}",
        "kv_tokens": _token_source(situation),
        "max_concurrency": "kv_tokens / max-model-len",
    }
