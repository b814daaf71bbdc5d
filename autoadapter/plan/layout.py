"""Which of the legal layouts: each strategy is one rule that a person can repeat by hand.

- `max_perf`: the smallest tensor size whose replicas together hold the workload; the other GPUs are replicas.
- `balanced`: the smallest tensor size at which weights take at most half of a device, so that the KV cache has room
  to grow; the other GPUs are replicas.
- `min_mem`: the fewest devices.

A layout that keeps the wanted context beats one that shortens it, and pipeline stages are the last resort.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from autoadapter.artifacts import Hardware, MemoryBudget, ModelProfile, Scheme, Strategy, Workload
from autoadapter.engine.schemes import SchemeRow
from autoadapter.plan.defaults import CPU_SHARE
from autoadapter.plan.kv import KvRefusedError, kv_layout
from autoadapter.plan.legality import Layout, layouts
from autoadapter.plan.memory import CacheFlags, Situation, budget, kv_pool, longest_request, pool_tokens
from autoadapter.plan.overhead import Batch
from autoadapter.plan.request import PlanRequest, UserFlags
from autoadapter.plan.schemes import as_scheme

GPU_UTILIZATION = 0.92
"""vLLM 0.32's default; above 0.95 graphs and fragmentation end in out-of-memory errors (vllm#21410)."""
AS_IS = Scheme(name="as_is", backend=None, why="the cache does not depend on the scheme", source="plan/kv")
LENGTH_STEP = 256
SHORTEST_MIN_MEM = 2048


@dataclass(frozen=True)
class Candidate:
    """A layout that fits, with its account."""

    situation: Situation
    memory: MemoryBudget
    max_model_len: int
    wanted_len: int
    total_tokens: int
    """KV tokens of all replicas, in requests as long as the workload's."""

    @property
    def layout(self) -> Layout:
        """The layout."""
        return self.situation.layout

    @property
    def scheme(self) -> Scheme:
        """The scheme."""
        return self.situation.scheme


def batch_for(request: PlanRequest, user: UserFlags, replicas: int) -> Batch:
    """Limits of one engine: a replica takes its part of the workload's requests."""
    strategy, on_cpu = request.strategy, request.hardware.kind == "cpu"
    share = -(-request.workload.concurrency // replicas)
    seqs = {
        Strategy.MAX_PERF: max(2 * share, 1 if on_cpu else 256),
        Strategy.BALANCED: max(2 * share, 1 if on_cpu else 64),
        Strategy.MIN_MEM: share,
    }[strategy]
    tokens = {Strategy.MAX_PERF: 2048 if on_cpu else 8192, Strategy.BALANCED: 2048, Strategy.MIN_MEM: 1024}[strategy]
    seqs = user.integer("max-num-seqs") or seqs
    tokens = user.integer("max-num-batched-tokens") or max(tokens, seqs)
    eager = user.values.get("enforce-eager", on_cpu and strategy is not Strategy.MAX_PERF)
    return Batch(seqs, tokens, graphs=not eager and not on_cpu)


def kv_dtype_for(request: PlanRequest, user: UserFlags) -> str:
    """FP8 for `min_mem` where the GPU computes with it, else the model's dtype."""
    chosen = user.text("kv-cache-dtype")
    if chosen is not None:
        return chosen
    capability = tuple(map(int, (request.hardware.compute_capability or "0.0").split(".")))
    small = request.strategy is Strategy.MIN_MEM and request.hardware.kind == "cuda" and capability >= (8, 9)
    return "fp8" if small else "auto"


def wanted_length(profile: ModelProfile, request: PlanRequest, user: UserFlags) -> int:
    """Context to aim for: the user's, the model's, or under `min_mem` what the workload needs."""
    chosen = user.integer("max-model-len")
    if chosen is not None:
        return chosen
    if request.strategy is not Strategy.MIN_MEM:
        return profile.max_model_len
    need = request.workload.input_len + request.workload.output_len
    return min(profile.max_model_len, max(SHORTEST_MIN_MEM, 1 << (need - 1).bit_length()))


def evaluate(
    profile: ModelProfile, request: PlanRequest, user: UserFlags, layout: Layout, scheme: Scheme
) -> Candidate | None:
    """The candidate if it holds at least one request, else None."""
    if cache_refusal(profile, request, user, (layout,)):
        return None
    situation = _situation(profile, request, user, layout, scheme)
    wanted, work = wanted_length(profile, request, user), request.workload
    longest = longest_request(situation, kv_pool(situation, work, wanted))
    length = _settled_length(wanted, longest, is_fixed=user.integer("max-model-len") is not None)
    per_request = work.input_len + work.output_len
    if length < per_request:
        return None
    if is_frugal(request, user):
        situation = replace(situation, utilization=enough_utilization(situation, work, length))
    memory = budget(situation, work, length)
    total = pool_tokens(situation, memory.kv_pool_bytes, per_request) * layout.data
    return Candidate(situation, memory, length, wanted, total)


def cache_refusal(
    profile: ModelProfile, request: PlanRequest, user: UserFlags, layouts: tuple[Layout, ...]
) -> KvRefusedError | None:
    """Why vLLM would refuse to lay out the cache under each of these layouts; None where it serves one."""
    found = None
    for layout in layouts:
        try:
            kv_layout(profile.structure, _situation(profile, request, user, layout, AS_IS).question)
        except KvRefusedError as refused:
            found = found or refused
        else:
            return None
    return found


def is_frugal(request: PlanRequest, user: UserFlags) -> bool:
    """Whether the plan takes no more of a GPU than it needs: `min_mem`, unless the user set the share himself."""
    wants_little = request.strategy is Strategy.MIN_MEM and request.hardware.kind == "cuda"
    return wants_little and user.number("gpu-memory-utilization") is None


def enough_utilization(situation: Situation, workload: Workload, max_model_len: int) -> float:
    """Share of the device that `min_mem` takes, in hundredths, at most what the situation has.

    Weights, the most that the overhead may be, and the KV cache of the workload or of one full request, whichever is
    larger.
    """
    replicas = situation.layout.data
    busy = -(-workload.concurrency // replicas) * situation.request_bytes(workload.input_len + workload.output_len)
    cache = max(busy, situation.kv.needed_bytes(max_model_len))
    most = max(situation.weights) + situation.extra.most_bytes
    hundredths = math.ceil((most + cache) / situation.hardware.memory_bytes * 100)
    return min(situation.utilization, hundredths / 100)


def _situation(
    profile: ModelProfile, request: PlanRequest, user: UserFlags, layout: Layout, scheme: Scheme
) -> Situation:
    on_gpu = request.hardware.kind == "cuda"
    share = (user.number("gpu-memory-utilization") or GPU_UTILIZATION) if on_gpu else CPU_SHARE
    return Situation(
        profile=profile,
        hardware=request.hardware,
        scheme=scheme,
        layout=layout,
        batch=batch_for(request, user, layout.data),
        utilization=share,
        kv_dtype=kv_dtype_for(request, user),
        cache=_cache_flags(user),
        vllm_version=request.vllm_version,
    )


def _cache_flags(user: UserFlags) -> CacheFlags:
    return CacheFlags(
        block_size=user.integer("block-size"),
        decode_context_parallel=user.integer("decode-context-parallel-size") or 1,
        prefix_caching=user.values.get("enable-prefix-caching") is not False,
        hybrid_manager=user.values.get("disable-hybrid-kv-cache-manager") is not True,
        async_scheduling=user.values.get("async-scheduling") is not False,
        speculative_tokens=_speculative_tokens(user.text("speculative-config")),
    )


def _speculative_tokens(config: str | None) -> int:
    """`num_speculative_tokens` of a `--speculative-config`; 0 where it is not JSON or does not say."""
    try:
        said = json.loads(config or "{}")
    except ValueError:
        return 0
    tokens = said.get("num_speculative_tokens") if isinstance(said, dict) else None
    return tokens if isinstance(tokens, int) and tokens > 0 else 0


def _settled_length(wanted: int, longest: int, *, is_fixed: bool) -> int:
    """The wanted length, or the longest that fits where nobody insists; 0 when nothing does."""
    if wanted <= longest:
        return wanted
    return 0 if is_fixed else longest // LENGTH_STEP * LENGTH_STEP


def legal_layouts(
    profile: ModelProfile, hardware: Hardware, user: UserFlags
) -> tuple[tuple[Layout, ...], dict[int, str]]:
    """Layouts that are legal and agree with what the user fixed."""
    legal, refused = layouts(profile, hardware.count, user.integer("data-parallel-size"))
    fixed = (
        user.integer("tensor-parallel-size"),
        user.integer("pipeline-parallel-size"),
        user.integer("data-parallel-size"),
    )
    return tuple(layout for layout in legal if _agrees(layout, fixed)), refused


def _agrees(layout: Layout, fixed: tuple[int | None, ...]) -> bool:
    sizes = (layout.tensor, layout.pipeline, layout.data)
    return all(wanted is None or wanted == size for wanted, size in zip(fixed, sizes, strict=True))


def best(candidates: list[Candidate], request: PlanRequest) -> Candidate:
    """The candidate that the strategy's rule names. `candidates` is not empty and sorted by tensor size."""
    plain = [candidate for candidate in candidates if candidate.layout.pipeline == 1] or candidates
    whole = [candidate for candidate in plain if candidate.max_model_len == candidate.wanted_len] or plain
    return RULES[request.strategy](whole, request)


def _max_perf(candidates: list[Candidate], request: PlanRequest) -> Candidate:
    work = request.workload
    target = work.concurrency * (work.input_len + work.output_len)
    most = [candidate for candidate in candidates if candidate.layout.devices == _most_devices(candidates, candidate)]
    enough = [candidate for candidate in most if candidate.total_tokens >= target]
    return enough[0] if enough else max(candidates, key=lambda candidate: candidate.total_tokens)


def _balanced(candidates: list[Candidate], request: PlanRequest) -> Candidate:  # noqa: ARG001
    most = [candidate for candidate in candidates if candidate.layout.devices == _most_devices(candidates, candidate)]
    roomy = [candidate for candidate in most if _weights_share(candidate) <= 0.5]
    return roomy[0] if roomy else min(most, key=_weights_share)


def _min_mem(candidates: list[Candidate], request: PlanRequest) -> Candidate:  # noqa: ARG001
    return min(candidates, key=lambda candidate: candidate.layout.devices)


def _most_devices(candidates: list[Candidate], like: Candidate) -> int:
    """Devices of the largest layout with the same tensor size."""
    return max(other.layout.devices for other in candidates if other.layout.tensor == like.layout.tensor)


def _weights_share(candidate: Candidate) -> float:
    return candidate.memory.weight_bytes / candidate.memory.device_bytes


RULES: dict[Strategy, Callable[[list[Candidate], PlanRequest], Candidate]] = {
    Strategy.MAX_PERF: _max_perf,
    Strategy.BALANCED: _balanced,
    Strategy.MIN_MEM: _min_mem,
}


def fitting(
    profile: ModelProfile, request: PlanRequest, user: UserFlags, row: SchemeRow, *, by_user: bool
) -> list[Candidate]:
    """Every legal layout that fits under one scheme, smallest tensor size first."""
    legal, _ = legal_layouts(profile, request.hardware, user)
    tried = (
        evaluate(profile, request, user, layout, as_scheme(profile, row, layout, by_user=by_user)) for layout in legal
    )
    return [candidate for candidate in tried if candidate is not None]
