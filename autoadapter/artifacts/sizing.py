"""What a model needs on given hardware: `sizing.json`, beside the profile. Nothing was started for it."""

from typing import ClassVar, Literal

from autoadapter.artifacts.base import Artifact, Frozen
from autoadapter.artifacts.finding import Finding
from autoadapter.artifacts.serving_plan import Hardware, Parallelism


class Interval(Frozen):
    """A size that is estimated, in bytes."""

    low: int
    likely: int
    high: int
    source: str
    """What it was learned from: version, device, number of starts."""


class KvCapacity(Frozen):
    """What a pool of bytes holds, as vLLM counts it."""

    block_size: int
    """Tokens of a block of the attention layers, after vLLM aligned it to recurrent state."""
    bytes_per_block: int
    blocks: int
    blocks_per_request: int
    """Of `max_model_len` tokens."""
    max_concurrency: float
    """Requests of `max_model_len` tokens at once, per replica."""
    tokens: int
    """Newer vLLM's "GPU KV cache size": `int(max_concurrency × max_model_len)`."""
    tokens_in_blocks: int
    """Older vLLM's meaning (before 0.21): `blocks // groups × block_size`."""
    longest: int
    """Tokens of the longest single request that the pool holds."""


class LayoutSizing(Frozen):
    """One layout of the model on the hardware."""

    parallelism: Parallelism
    expert_parallel: bool
    legal: bool
    reason: str | None
    """Why vLLM refuses it, or why it does not fit; None when it serves."""
    fits: bool
    weight_bytes: int
    """On the fullest rank."""
    activation: Interval | None
    non_torch: Interval | None
    graphs: Interval | None
    kv_pool: Interval | None
    """What is left on the rank that has least, for `gpu_memory_utilization`."""
    kv: KvCapacity | None
    """At the likely pool, of one replica: with replicas (DP) the whole holds `data_parallel_size` times as much."""
    arithmetic: str
    """The account in one line, in GiB."""
    notes: tuple[str, ...] = ()
    """What to know of a layout that vLLM takes."""


class OperatorCost(Frozen):
    """One operator, summed over the layers that have it, on one rank."""

    name: str
    phase: Literal["prefill", "decode"]
    flops: float
    bytes: float
    seconds: float
    """At the device's datasheet rates: a floor, no prediction."""
    bound: Literal["compute", "memory"]


class CostProfile(Frozen):
    """Where the time of a step goes if every operator meets its bound."""

    prefill_tokens: int
    decode_batch: int
    context: int
    parallelism: Parallelism
    operators: tuple[OperatorCost, ...]
    ridge: float
    """FLOP per byte at which the device turns from memory to compute bound, at 16 bit."""
    source: str


class DeviceFact(Frozen):
    """Something about this model on this device."""

    topic: str
    """`scheme`, `kv-cache`, `attention`, `interconnect`, …"""
    text: str
    good: bool
    stops: bool = False
    """Whether the device cannot run the model at all."""
    source: str


class Sizing(Artifact):
    """Layouts, memory and costs of a model on hardware, for one vLLM version."""

    file_name: ClassVar[str] = "sizing.json"
    stage: ClassVar[str] = "analyze"

    profile_digest: str
    hardware: Hardware
    vllm_version: str
    max_model_len: int
    """Tokens of context that it was sized for."""
    gpu_memory_utilization: float
    """Share of a device's memory that the server may take, on a CPU too."""
    parameters: int = 0
    """Of all tensors by their headers, else of the language model by its matrices; 0 where neither is known."""
    active_parameters: int = 0
    """Of them, those that one token uses."""
    layouts: tuple[LayoutSizing, ...]
    """Legal ones first, smallest first; then refused ones with the reason."""
    device_facts: tuple[DeviceFact, ...]
    cost: CostProfile | None
    smallest: str | None
    """Cheapest catalogued hardware that serves one request of `max_model_len`, as `--hardware` takes it."""
    findings: tuple[Finding, ...]
