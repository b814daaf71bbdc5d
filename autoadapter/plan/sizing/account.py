"""The account of one layout: weights, overhead, what is left for the cache, and what that holds."""

from dataclasses import dataclass
from functools import cached_property

from autoadapter.artifacts import Interval, LayoutSizing, ModelProfile, Scheme
from autoadapter.engine.schemes import scheme as scheme_row
from autoadapter.plan.defaults import default_batch
from autoadapter.plan.devices import device_facts
from autoadapter.plan.kv import KvLayout, KvQuestion, KvRefusedError, kv_layout
from autoadapter.plan.legality import Layout, LayoutVerdict
from autoadapter.plan.memory import CPU_POOL_SHARE
from autoadapter.plan.overhead import GIB, Overhead, overhead
from autoadapter.plan.schemes import as_scheme
from autoadapter.plan.sizing.request import SizingRequest
from autoadapter.plan.weights import stage_weights


@dataclass(frozen=True)
class Case:
    """One layout on one kind of device."""

    profile: ModelProfile
    request: SizingRequest
    layout: Layout

    @cached_property
    def context(self) -> int:
        """Tokens that one request may have."""
        return self.request.max_model_len or self.profile.max_model_len

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """Bytes on a rank of each pipeline stage."""
        return stage_weights(self.profile, _as_stored(self.profile), self.layout)

    @cached_property
    def extra(self) -> Overhead:
        """What a device needs beside weights and cache."""
        batch = default_batch(self.request.hardware, self.request.vllm_version)
        return overhead(self.profile, self.request.hardware, self.layout, batch, self.request.vllm_version)

    @cached_property
    def question(self) -> KvQuestion:
        """What the cache depends on beside the structure."""
        hardware, memory = self.request.hardware, self.profile.memory
        stored = self.profile.quantization.kv_cache_dtype if self.profile.quantization else None
        asked = self.request.kv_cache_dtype
        return KvQuestion(
            max_model_len=self.context,
            max_num_batched_tokens=default_batch(hardware, self.request.vllm_version).max_num_batched_tokens,
            tensor_parallel=self.layout.tensor,
            pipeline_parallel=self.layout.pipeline,
            kv_cache_dtype=stored if asked == "auto" and stored else asked,
            model_dtype="float32" if memory.served_dtype == "float32" else "bfloat16",
            device=hardware.kind,
            longest_model_len=max(self.context, self.profile.max_model_len),
            vllm_version=self.request.vllm_version,
        )

    @cached_property
    def kv(self) -> KvLayout:
        """Groups and blocks of the cache."""
        return kv_layout(self.profile.structure, self.question)

    @property
    def budget(self) -> int:
        """Bytes that the server may take of a device."""
        return int(self.request.hardware.memory_bytes * self.request.utilization)

    @cached_property
    def pools(self) -> tuple[Interval, ...]:
        """Of a rank of each stage; what an interval of a term adds to one end it takes from the other."""
        extra = self.extra
        if self.request.hardware.kind == "cpu":
            share = int(self.request.hardware.memory_bytes * CPU_POOL_SHARE)
            room = self.budget - max(self.weights) - extra.total_bytes
            return tuple(_fixed(min(share, room)) for _ in self.weights)
        others = (extra.non_torch, *([extra.graphs] if extra.reserves_graphs else []))
        return tuple(
            _left(self.budget - weight, (peak, *others))
            for weight, peak in zip(self.weights, extra.activation, strict=True)
        )

    @property
    def stop(self) -> str | None:
        """Why the device cannot run the model at all, or None."""
        facts = device_facts(self.profile, self.request.hardware, self.layout)
        return next((fact.text for fact in facts if fact.stops), None)

    @property
    def tightest(self) -> int:
        """Number of the stage whose pool is smallest."""
        return min(range(len(self.pools)), key=lambda stage: self.pools[stage].likely)


def account(profile: ModelProfile, request: SizingRequest, verdict: LayoutVerdict) -> LayoutSizing:
    """One layout: refused by vLLM, too small, or what it holds."""
    case = Case(profile, request, verdict.layout)
    if not verdict.legal:
        reason = f"{verdict.reason}{f' ({verdict.remedy})' if verdict.remedy else ''}"
        return _row(case, verdict, fits=False, reason=reason)
    if stop := case.stop:
        return _row(case, verdict, fits=False, reason=stop)
    pools = [pool.likely for pool in case.pools]
    if min(pools) <= 0:
        return _row(case, verdict, fits=False, reason="weights and overhead alone are more than the budget")
    try:
        capacity = case.kv.capacity(tuple(pools))
    except KvRefusedError as refusal:
        return _row(case, verdict, fits=False, reason=str(refusal))
    fits = capacity.longest >= case.context or not case.kv.groups
    row = _row(case, verdict, fits=fits, reason=None if fits else _too_long(case, pools, capacity.longest))
    return row.model_copy(update={"kv": capacity})


def _too_long(case: Case, pools: list[int], longest: int) -> str:
    need = case.kv.needed_bytes(case.context) / GIB
    tail = f"; {longest:,} tokens fit (--max-model-len {longest})" if longest else ""
    left = f"{min(pools) / GIB:.2f} are left"
    return f"one request of {case.context:,} tokens needs {need:.2f} GiB of KV cache, {left}{tail}"


def _row(case: Case, verdict: LayoutVerdict, *, fits: bool, reason: str | None) -> LayoutSizing:
    stage, legal = case.tightest, verdict.legal
    return LayoutSizing(
        parallelism=verdict.layout.as_artifact(),
        expert_parallel=verdict.layout.expert_parallel,
        legal=legal,
        reason=reason,
        fits=fits,
        weight_bytes=max(case.weights),
        activation=case.extra.activation[stage] if legal else None,
        non_torch=case.extra.non_torch if legal else None,
        graphs=case.extra.graphs if legal and case.extra.reserves_graphs else None,
        kv_pool=case.pools[stage] if legal else None,
        kv=None,
        arithmetic=_arithmetic(case, stage) if legal else "",
        notes=verdict.notes,
    )


def _arithmetic(case: Case, stage: int) -> str:
    extra, hardware = case.extra, case.request.hardware
    if hardware.kind == "cpu":
        size = f"{hardware.memory_bytes / GIB:.2f}"
        pool = case.pools[stage].likely / GIB
        return f"{CPU_POOL_SHARE:g} of {size}, or what is left of {case.request.utilization:g} = KV {pool:.2f} GiB"
    terms = [("weights", case.weights[stage]), ("activations", extra.activation[stage].likely)]
    terms += [("outside torch", extra.non_torch.likely)]
    terms += [("graphs", extra.graphs.likely)] if extra.reserves_graphs else []
    less = " - ".join(f"{name} {size / GIB:.2f}" for name, size in terms)
    whole = f"{hardware.memory_bytes / GIB:.2f} × {case.request.utilization:g}"
    return f"{whole} = {case.budget / GIB:.2f} - {less} = KV {case.pools[stage].likely / GIB:.2f} GiB"


def _left(room: int, terms: tuple[Interval, ...]) -> Interval:
    return Interval(
        low=room - sum(term.high for term in terms),
        likely=room - sum(term.likely for term in terms),
        high=room - sum(term.low for term in terms),
        source="; ".join(dict.fromkeys(term.source for term in terms)),
    )


def _fixed(size: int) -> Interval:
    return Interval(low=size, likely=size, high=size, source="plan/memory.py: CPU_POOL_SHARE of the memory")


def _as_stored(profile: ModelProfile) -> Scheme:
    return as_scheme(profile, scheme_row("as_is"), Layout(), by_user=False)
