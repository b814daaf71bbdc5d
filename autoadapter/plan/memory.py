"""Whether it fits: weights, overhead and KV cache on the fullest device.

Formulas: `num_blocks = floor(pool / (block × bytes per token))`, `tokens = num_blocks × block`,
`concurrency = tokens / max-model-len`. Once the pool is known they reproduce 57 public vLLM 0.19 start-up logs
to 0.05 %. Where layers slide or keep a state a token has no one price: `kv_tokens` is then the tokens that a replica
holds in requests of `max-model-len`, concurrency × max-model-len, which is what vLLM 0.24 and newer print.
"""

import math
from dataclasses import dataclass

from autoadapter.artifacts import Hardware, MemoryBudget, ModelProfile, Scheme, Workload
from autoadapter.plan.legality import Layout
from autoadapter.plan.overhead import GIB, Batch, overhead
from autoadapter.plan.weights import is_estimated, kv_share, weight_bytes
from autoadapter.plan.windows import BATCHES_IN_FLIGHT, KvCost, held_tokens, padding, slides

GPU_BLOCK = 16
CPU_BLOCK = 128
CPU_MLA_BLOCK = 16
"""Tokens of a KV block. Source: vLLM 0.32 `CacheConfig.block_size` and `platforms/cpu.py`."""
CPU_SHARE = 0.9
"""Part of a CPU machine's memory that the server may take; the rest is for the system."""
CPU_POOL_SHARE = 0.25
"""Largest part of the memory for the KV cache on a CPU: vLLM holds the pool against one NUMA node's free memory."""
KV_ELEMENT_BYTES = {"fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "float32": 4}
"""By `--kv-cache-dtype`; everything else is planned as 16 bit."""


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
    is_windowed: bool = True
    """Whether vLLM's hybrid KV cache manager frees what slides out of a window; the user may turn it off."""
    batches_in_flight: int = BATCHES_IN_FLIGHT

    @property
    def block(self) -> int:
        """Tokens of a KV block."""
        if self.hardware.kind == "cuda":
            return GPU_BLOCK
        return CPU_MLA_BLOCK if self.profile.attention.kind == "mla" else CPU_BLOCK

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of KV cache that one token takes on one device, in all layers."""
        return self._on_device(self.profile.memory.kv_bytes_per_token)

    @property
    def kv_cost(self) -> KvCost:
        """Bytes of a request's tokens on one device, sliding layers apart."""
        if not self.is_windowed or not slides(self.profile):
            return KvCost(self.kv_bytes_per_token, 0, 0)
        sliding = self.profile.memory.kv_window_bytes_per_token
        whole = self.profile.memory.kv_bytes_per_token - sliding
        whole_padding, sliding_padding = padding(self.profile)
        in_flight = (self.batches_in_flight + self.layout.pipeline - 1) * self.batch.max_num_batched_tokens
        held = held_tokens(self.profile, in_flight, self.block)
        return KvCost(self._on_device(whole * whole_padding), self._on_device(sliding * sliding_padding), held)

    def _on_device(self, whole: float) -> int:
        layers = max(1, self.profile.attention.num_layers)
        stage = -(-layers // self.layout.pipeline) / layers
        element = KV_ELEMENT_BYTES.get(self.kv_dtype, 2) / 2
        return math.ceil(whole * element * kv_share(self.profile, self.layout) * stage)

    def request_bytes(self, tokens: int) -> int:
        """Bytes that one request of so many tokens takes on one device: KV cache and recurrent state."""
        return self.kv_cost.request_bytes(tokens) + self.profile.memory.state_bytes_per_request

    @property
    def room(self) -> int:
        """Bytes that are left for KV cache and recurrent state; negative when the weights alone do not fit."""
        return int(self.hardware.memory_bytes * self.utilization) - self.fixed_bytes

    @property
    def fixed_bytes(self) -> int:
        """Weights and overhead on the fullest device."""
        extra = overhead(self.profile, self.hardware, self.layout, self.batch).total_bytes
        return weight_bytes(self.profile, self.scheme, self.layout) + extra


def kv_pool(situation: Situation, workload: Workload, max_model_len: int) -> int:
    """Bytes of the KV pool: all the room on a GPU; on a CPU what the workload needs, in whole GiB, at least one."""
    if situation.hardware.kind == "cuda":
        return max(0, situation.room)
    per_request = min(workload.input_len + workload.output_len, max_model_len)
    busy = workload.concurrency * situation.request_bytes(per_request)
    one = situation.request_bytes(max_model_len + CPU_BLOCK)
    cap = max(int(situation.hardware.memory_bytes * CPU_POOL_SHARE), one)
    wanted = math.ceil(max(min(busy, cap), one) / GIB)
    return min(wanted, max(0, situation.room // GIB)) * GIB


def longest_request(situation: Situation, pool: int) -> int:
    """Tokens that one request may have with the pool to itself."""
    state = situation.profile.memory.state_bytes_per_request
    if situation.kv_bytes_per_token == 0:
        return situation.profile.max_model_len if pool >= state else 0
    longest = situation.kv_cost.longest(pool - state, situation.block)
    return situation.profile.max_model_len if longest is None else longest


def budget(situation: Situation, workload: Workload, max_model_len: int) -> MemoryBudget:
    """The whole account of the fullest device."""
    pool = kv_pool(situation, workload, max_model_len)
    tokens = pool_tokens(situation, pool, max_model_len)
    extra = overhead(situation.profile, situation.hardware, situation.layout, situation.batch)
    return MemoryBudget(
        device_bytes=situation.hardware.memory_bytes,
        weight_bytes=weight_bytes(situation.profile, situation.scheme, situation.layout),
        overhead_bytes=extra.total_bytes,
        kv_pool_bytes=pool,
        kv_bytes_per_token=situation.kv_bytes_per_token,
        kv_tokens=tokens,
        max_concurrency=round(tokens / max_model_len, 2),
        provenance=_provenance(situation, extra.source),
    )


def pool_tokens(situation: Situation, pool: int, length: int) -> int:
    """Tokens that a pool holds in requests of `length` tokens, in whole blocks.

    The length matters where layers slide or keep a state; elsewhere every token costs the same.
    """
    state = situation.profile.memory.state_bytes_per_request
    if situation.kv_bytes_per_token == 0:
        return (pool // state if state else situation.batch.max_num_seqs) * length
    return pool * length // situation.request_bytes(length) // situation.block * situation.block


def _token_source(situation: Situation) -> str:
    blocks = f"pool in blocks of {situation.block} tokens"
    held = situation.kv_cost.held
    return f"{blocks}, in requests of max-model-len; sliding layers hold at most {held} tokens" if held else blocks


def _provenance(situation: Situation, overhead_source: str) -> dict[str, str]:
    share = f"{situation.utilization:g} of the device less weights and overhead"
    size = "estimate from the configuration" if is_estimated(situation.profile) else "profile: served bytes"
    cpu = f"what the workload needs, in whole GiB, at most {CPU_POOL_SHARE:g} of the memory where one request allows"
    return {
        "device_bytes": situation.hardware.source,
        "weight_bytes": f"{size} under {situation.scheme.name}, spread over {situation.layout.text}",
        "overhead_bytes": overhead_source,
        "kv_pool_bytes": share if situation.hardware.kind == "cuda" else cpu,
        "kv_bytes_per_token": f"profile: KV bytes of all layers, KV cache dtype {situation.kv_dtype}",
        "kv_tokens": _token_source(situation),
        "max_concurrency": "kv_tokens / max-model-len",
    }
