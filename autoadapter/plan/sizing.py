"""What a model needs on given hardware: every layout with its account, before anything was started."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import autoadapter
from autoadapter.artifacts import Finding, Hardware, Interval, LayoutSizing, Level, ModelProfile, Scheme, Sizing
from autoadapter.engine.schemes import scheme as scheme_row
from autoadapter.hardware import gpus, parse_hardware
from autoadapter.plan.cost import cost_profile
from autoadapter.plan.defaults import default_batch, default_utilization
from autoadapter.plan.devices import device_facts
from autoadapter.plan.encoders import encoder_facts
from autoadapter.plan.kv import KvLayout, KvQuestion, KvRefusedError, kv_layout, kv_notes
from autoadapter.plan.legality import Layout, LayoutVerdict, all_layouts, tensor_sizes
from autoadapter.plan.memory import CPU_POOL_SHARE, CPU_SHARE
from autoadapter.plan.overhead import GIB, Overhead, overhead
from autoadapter.plan.schemes import as_scheme
from autoadapter.plan.weights import stage_weights

COUNTS = (1, 2, 4, 8, 16)
COMMON = ("l4", "a100", "h100", "h200", "b200")
"""What people ask about who do not say what they have."""


@dataclass(frozen=True)
class SizingRequest:
    """What to size for; None leaves it to the model's or vLLM's default."""

    hardware: Hardware
    vllm_version: str
    max_model_len: int | None = None
    """Tokens."""
    gpu_memory_utilization: float | None = None
    kv_cache_dtype: str = "auto"

    @property
    def utilization(self) -> float:
        """Share of a device that the server may take."""
        return self.gpu_memory_utilization or default_utilization(self.vllm_version)


@dataclass(frozen=True)
class _Case:
    """One layout on one kind of device."""

    profile: ModelProfile
    request: SizingRequest
    layout: Layout

    @cached_property
    def context(self) -> int:
        return self.request.max_model_len or self.profile.max_model_len

    @cached_property
    def weights(self) -> tuple[int, ...]:
        return stage_weights(self.profile, _as_stored(self.profile), self.layout)

    @cached_property
    def extra(self) -> Overhead:
        batch = default_batch(self.request.hardware, self.request.vllm_version)
        return overhead(self.profile, self.request.hardware, self.layout, batch, self.request.vllm_version)

    @cached_property
    def question(self) -> KvQuestion:
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
        return kv_layout(self.profile.structure, self.question)

    @property
    def budget(self) -> int:
        return int(self.request.hardware.memory_bytes * self.request.utilization)

    @cached_property
    def pools(self) -> tuple[Interval, ...]:
        """Of a rank of each stage; what an interval of a term adds to one end it takes from the other."""
        extra = self.extra
        if self.request.hardware.kind == "cpu":
            share = int(self.request.hardware.memory_bytes * CPU_POOL_SHARE)
            room = int(self.request.hardware.memory_bytes * CPU_SHARE) - max(self.weights) - extra.total_bytes
            return tuple(_fixed(min(share, room)) for _ in self.weights)
        others = (extra.non_torch, *([extra.graphs] if extra.reserves_graphs else []))
        return tuple(
            _left(self.budget - weight, (peak, *others))
            for weight, peak in zip(self.weights, extra.activation, strict=True)
        )

    @property
    def tightest(self) -> int:
        """Number of the stage whose pool is smallest."""
        return min(range(len(self.pools)), key=lambda stage: self.pools[stage].likely)


def size_model(profile: ModelProfile, request: SizingRequest) -> Sizing:
    """Layouts, memory and costs of a model on hardware.

    Args:
        profile: what `analyze` found.
        request: hardware, version, context.

    Returns:
        Legal layouts first, smallest first, each with its account; then the refused ones, each with the reason.
    """
    verdicts = all_layouts(profile, request.hardware.count)
    layouts = tuple(_sized(profile, request, verdict) for verdict in verdicts)
    serving = next((verdict.layout for verdict, row in zip(verdicts, layouts, strict=True) if row.fits), None)
    shown = serving or Layout()
    return Sizing(
        tool_version=autoadapter.__version__,
        profile_digest=profile.digest(),
        hardware=request.hardware,
        vllm_version=request.vllm_version,
        max_model_len=request.max_model_len or profile.max_model_len,
        gpu_memory_utilization=request.utilization,
        layouts=layouts,
        device_facts=(
            *device_facts(profile, request.hardware, shown),
            *encoder_facts(profile, default_batch(request.hardware, request.vllm_version)),
        ),
        cost=cost_profile(profile, request.hardware, shown),
        smallest=smallest_hardware(profile, request),
        findings=tuple(_findings(profile, request, layouts)),
    )


def common_hardware(profile: ModelProfile, request: SizingRequest) -> Iterator[Sizing]:
    """The catalogue's common GPUs, each in the smallest number that serves the context, else eight."""
    for name in COMMON:
        offers = [parse_hardware(f"{name}:{count}") for count in COUNTS[:4]]
        chosen = next((offer for offer in offers if _serves(profile, _on(request, offer))), offers[-1])
        yield _brief(profile, _on(request, chosen))


def smallest_hardware(profile: ModelProfile, request: SizingRequest) -> str | None:
    """The least memory of the catalogue that serves one request of the context by tensor parallelism alone."""
    offers = [parse_hardware(f"{gpu.name}:{count}") for gpu in gpus() if gpu.is_served for count in COUNTS]
    bound = profile.structure.served_bytes
    for offer in sorted(offers, key=lambda offer: (offer.memory_bytes * offer.count, offer.count)):
        if offer.memory_bytes * offer.count > bound and _serves(profile, _on(request, offer)):
            return offer.text
    return None


def _on(request: SizingRequest, hardware: Hardware) -> SizingRequest:
    return SizingRequest(
        hardware,
        request.vllm_version,
        request.max_model_len,
        request.gpu_memory_utilization,
        request.kv_cache_dtype,
    )


def _brief(profile: ModelProfile, request: SizingRequest) -> Sizing:
    """One layout of the hardware: all its devices by tensor parallelism, or the most that is legal."""
    sizes = tensor_sizes(profile, request.hardware.count)
    layout = Layout(tensor=max(sizes, default=1))
    return Sizing(
        tool_version=autoadapter.__version__,
        profile_digest=profile.digest(),
        hardware=request.hardware,
        vllm_version=request.vllm_version,
        max_model_len=request.max_model_len or profile.max_model_len,
        gpu_memory_utilization=request.utilization,
        layouts=(_sized(profile, request, LayoutVerdict(layout, legal=True)),),
        device_facts=device_facts(profile, request.hardware, layout),
        cost=cost_profile(profile, request.hardware, layout),
        smallest=None,
        findings=(),
    )


def _serves(profile: ModelProfile, request: SizingRequest) -> bool:
    count = request.hardware.count
    if count not in tensor_sizes(profile, count):
        return False
    return _sized(profile, request, LayoutVerdict(Layout(tensor=count), legal=True)).fits


def _sized(profile: ModelProfile, request: SizingRequest, verdict: LayoutVerdict) -> LayoutSizing:
    case = _Case(profile, request, verdict.layout)
    if not verdict.legal:
        reason = f"{verdict.reason}{f' ({verdict.remedy})' if verdict.remedy else ''}"
        return _row(case, verdict, fits=False, reason=reason)
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


def _too_long(case: _Case, pools: list[int], longest: int) -> str:
    need = case.kv.needed_bytes(case.context) / GIB
    tail = f"; {longest:,} tokens fit (--max-model-len {longest})" if longest else ""
    left = f"{min(pools) / GIB:.2f} are left"
    return f"one request of {case.context:,} tokens needs {need:.2f} GiB of KV cache, {left}{tail}"


def _row(case: _Case, verdict: LayoutVerdict, *, fits: bool, reason: str | None) -> LayoutSizing:
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


def _arithmetic(case: _Case, stage: int) -> str:
    extra, hardware = case.extra, case.request.hardware
    if hardware.kind == "cpu":
        size = f"{hardware.memory_bytes / GIB:.2f}"
        pool = case.pools[stage].likely / GIB
        return f"{CPU_POOL_SHARE:g} of {size}, or what is left of {CPU_SHARE:g} = KV {pool:.2f} GiB"
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


def _findings(profile: ModelProfile, request: SizingRequest, layouts: tuple[LayoutSizing, ...]) -> Iterator[Finding]:
    question = _Case(profile, request, Layout()).question
    for note in kv_notes(profile.structure, question):
        yield Finding(code="sizing.cache", level=Level.INFO, message=note, source="plan/kv")
    if not any(row.fits for row in layouts):
        first = next((row.reason for row in layouts if row.legal), None) or "no layout is legal"
        message = f"{profile.ref.name} does not serve its context on {request.hardware.text}: {first}."
        yield Finding(code="sizing.does-not-fit", level=Level.WARNING, message=message, source="plan/sizing.py")
