"""Every layout of a model on hardware, and the hardware that would do."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import autoadapter
from autoadapter.artifacts import DeviceFact, Finding, Hardware, LayoutSizing, Level, ModelProfile, Sizing
from autoadapter.hardware import gpus, parse_hardware
from autoadapter.plan.cost import active_parameters, all_parameters, cost_profile
from autoadapter.plan.defaults import default_batch
from autoadapter.plan.devices import device_facts
from autoadapter.plan.encoders import encoder_facts
from autoadapter.plan.kv import kv_notes
from autoadapter.plan.legality import Layout, LayoutVerdict, all_layouts, tensor_sizes
from autoadapter.plan.sizing.account import Case, account
from autoadapter.plan.sizing.request import SizingRequest

COUNTS = (1, 2, 4, 8, 16)
COMMON = ("l4", "a100", "h100", "h200", "b200")
"""What people ask about who do not say what they have."""


def size_model(profile: ModelProfile, request: SizingRequest) -> Sizing:
    """Layouts, memory and costs of a model on hardware.

    Args:
        profile: what `analyze` found.
        request: hardware, version, context.

    Returns:
        Legal layouts first, each with its account; then the refused ones, each with the reason. None where no layer is
        known: nothing can be counted then.
    """
    verdicts = all_layouts(profile, request.hardware.count) if profile.structure.groups else ()
    layouts = tuple(account(profile, request, verdict) for verdict in verdicts)
    sizing = _sizing(profile, request, layouts)
    return sizing.model_copy(
        update={
            "smallest": smallest_hardware(profile, request),
            "findings": tuple(_findings(profile, request, layouts)),
        }
    )


def common_hardware(profile: ModelProfile, request: SizingRequest) -> Iterator[Sizing]:
    """The catalogue's common GPUs, each in the smallest number that serves the context, else eight."""
    for name in COMMON if profile.structure.groups else ():
        offers = [parse_hardware(f"{name}:{count}") for count in COUNTS[:4]]
        chosen = next((offer for offer in offers if _serves(profile, _on(request, offer))), offers[-1])
        yield _brief(profile, _on(request, chosen))


def smallest_hardware(profile: ModelProfile, request: SizingRequest) -> str | None:
    """The least memory of the catalogue that serves one request of the context by tensor parallelism alone."""
    if not profile.structure.groups:
        return None
    offers = [parse_hardware(f"{gpu.name}:{count}") for gpu in gpus() if gpu.is_served for count in COUNTS]
    bound = profile.structure.served_bytes
    for offer in sorted(offers, key=lambda offer: (offer.memory_bytes * offer.count, offer.count)):
        if offer.memory_bytes * offer.count > bound and _serves(profile, _on(request, offer)):
            return offer.text
    return None


def _on(request: SizingRequest, hardware: Hardware) -> SizingRequest:
    return replace(request, hardware=hardware)


def _brief(profile: ModelProfile, request: SizingRequest) -> Sizing:
    """One layout of the hardware: all its devices by tensor parallelism, or the most that is legal."""
    layout = Layout(tensor=max(tensor_sizes(profile, request.hardware.count), default=1))
    return _sizing(profile, request, (account(profile, request, LayoutVerdict(layout, legal=True)),))


def _sizing(profile: ModelProfile, request: SizingRequest, layouts: Sequence[LayoutSizing]) -> Sizing:
    """The layouts with what the first one that serves means for the device."""
    shown = next((_layout(row) for row in (*(row for row in layouts if row.fits), *layouts)), Layout())
    return Sizing(
        tool_version=autoadapter.__version__,
        profile_digest=profile.digest(),
        hardware=request.hardware,
        vllm_version=request.vllm_version,
        max_model_len=request.max_model_len or profile.max_model_len,
        gpu_memory_utilization=request.utilization,
        parameters=all_parameters(profile) or 0,
        active_parameters=active_parameters(profile) or 0,
        layouts=tuple(layouts),
        device_facts=tuple(_facts(profile, request, shown)),
        cost=cost_profile(profile, request.hardware, shown),
        smallest=None,
        findings=(),
    )


def _layout(row: LayoutSizing) -> Layout:
    sizes = row.parallelism
    return Layout(
        tensor=sizes.tensor_parallel_size,
        pipeline=sizes.pipeline_parallel_size,
        data=sizes.data_parallel_size,
        expert_parallel=row.expert_parallel,
    )


def _facts(profile: ModelProfile, request: SizingRequest, layout: Layout) -> Iterator[DeviceFact]:
    yield from device_facts(profile, request.hardware, layout)
    yield from encoder_facts(profile, default_batch(request.hardware, request.vllm_version))


def _serves(profile: ModelProfile, request: SizingRequest) -> bool:
    count = request.hardware.count
    if count not in tensor_sizes(profile, count):
        return False
    return account(profile, request, LayoutVerdict(Layout(tensor=count), legal=True)).fits


def _findings(profile: ModelProfile, request: SizingRequest, layouts: tuple[LayoutSizing, ...]) -> Iterator[Finding]:
    question = Case(profile, request, Layout()).question
    for note in kv_notes(profile.structure, question):
        yield Finding(code="sizing.cache", level=Level.INFO, message=note, source="plan/kv")
    if layouts and not any(row.fits for row in layouts):
        first = next((row.reason for row in layouts if row.legal), None) or "no layout is legal"
        message = f"{profile.ref.name} does not serve its context on {request.hardware.text}: {first}."
        yield Finding(code="sizing.does-not-fit", level=Level.WARNING, message=message, source="plan/sizing.py")
