"""Every combination of TP × PP × DP × EP, judged."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from autoadapter.artifacts import ModelProfile
from autoadapter.once import once_each
from autoadapter.plan.legality import experts, heads, pipeline, states, widths
from autoadapter.plan.legality.blocks import quantized_shards
from autoadapter.plan.legality.layout import Layout, Refusal
from autoadapter.plan.legality.sizes import is_latent

TensorRule = Callable[[ModelProfile, int], Refusal | None]
LayoutRule = Callable[[ModelProfile, Layout], Refusal | None]
TENSOR_RULES: tuple[TensorRule, ...] = (
    heads.attention_heads,
    heads.key_value_heads,
    widths.vocabulary,
    widths.intermediate_size,
    widths.split_widths,
    states.state_groups,
    states.state_elements,
)
"""What the architecture says of a tensor-parallel size."""
LAYOUT_RULES: tuple[LayoutRule, ...] = (pipeline.stages, experts.expert_slices, experts.expert_shares)
"""What depends on more than the tensor-parallel size."""
FINE = 16
"""Sizes up to here are all tried; above, powers of two and divisors of the device count."""


@dataclass(frozen=True)
class LayoutVerdict:
    """One layout, and whether vLLM takes it."""

    layout: Layout
    legal: bool
    reason: str | None = None
    """Why not."""
    source: str | None = None
    """The line of vLLM that refuses."""
    remedy: str | None = None
    notes: tuple[str, ...] = ()
    """What to know of a layout that is taken."""


def tensor_refusal(profile: ModelProfile, tensor: int) -> str | None:
    """Why vLLM cannot split the model over `tensor` devices, whatever its quantization; or None."""
    refusal = _first(profile, tensor)
    return refusal.reason if refusal else None


@once_each
def _first(profile: ModelProfile, tensor: int) -> Refusal | None:
    if tensor == 1:
        return None
    return next((refusal for rule in TENSOR_RULES if (refusal := rule(profile, tensor))), None)


def judge(profile: ModelProfile, layout: Layout) -> LayoutVerdict:
    """One layout against every rule; the first refusal counts."""
    refusal = _first(profile, layout.tensor) or quantized_shards(profile, layout.tensor)
    refusal = refusal or next((found for rule in LAYOUT_RULES if (found := rule(profile, layout))), None)
    if refusal is not None:
        return LayoutVerdict(layout, legal=False, reason=refusal.reason, source=refusal.source, remedy=refusal.remedy)
    return LayoutVerdict(layout, legal=True, notes=tuple(_notes(profile, layout)))


def _notes(profile: ModelProfile, layout: Layout) -> Iterator[str]:
    copies = heads.kv_copies(profile, layout.tensor)
    if is_latent(profile) and layout.tensor > 1:
        yield f"the latent KV cache is whole on each of the {layout.tensor} ranks"
    elif copies > 1:
        yield f"key/value heads are repeated: {copies} ranks hold the same"
    yield from experts.expert_notes(profile, layout)


def tensor_sizes(profile: ModelProfile, devices: int) -> tuple[int, ...]:
    """Tensor-parallel sizes up to `devices` that vLLM takes, quantization counted, experts not."""
    sizes = range(1, devices + 1)
    return tuple(size for size in sizes if _first(profile, size) is None and quantized_shards(profile, size) is None)


def all_layouts(profile: ModelProfile, devices: int) -> tuple[LayoutVerdict, ...]:
    """Every layout that occupies at most `devices`: legal ones first, powers of two first, smallest first.

    A refused tensor-parallel size is listed once, alone; experts are tried whole and in slices wherever there is more
    than one rank for them.
    """
    verdicts = [judge(profile, layout) for layout in _candidates(profile, devices)]
    return tuple(sorted(verdicts, key=lambda verdict: (not verdict.legal, _order(verdict.layout))))


def _order(layout: Layout) -> tuple[bool, int, int, int, int, bool]:
    """Sizes that nobody builds machines of come last: 3 replicas, 7 stages."""
    sizes = (layout.tensor, layout.pipeline, layout.data)
    odd = any(size & (size - 1) for size in sizes)
    return (odd, layout.devices, layout.pipeline, layout.data, layout.tensor, layout.expert_parallel)


def _candidates(profile: ModelProfile, devices: int) -> Iterator[Layout]:
    sizes = _sizes(devices)
    for tensor in sizes:
        refused = _first(profile, tensor) or quantized_shards(profile, tensor)
        combinations = ((stage, data) for stage in sizes for data in sizes if tensor * stage * data <= devices)
        for stage, data in [(1, 1)] if refused else combinations:
            plain = Layout(tensor, stage, data)
            yield plain
            if profile.moe is not None and plain.expert_ranks > 1 and not refused:
                yield Layout(tensor, stage, data, expert_parallel=True)


def _sizes(devices: int) -> list[int]:
    powers = {1 << power for power in range(devices.bit_length())}
    divisors = {size for size in range(1, devices + 1) if devices % size == 0}
    return sorted(set(range(1, min(devices, FINE) + 1)) | powers | divisors)
