"""Where the time of a step would go if every operator met its bound: a floor, never a prediction.

Each operator takes `max(FLOPs / datasheet rate, bytes / memory bandwidth)`. Counted are matrix products, attention over
the cache, recurrent state, weights and caches; not counted are activations, norms' arithmetic, communication between
devices, launches and scheduling, so real steps are slower. Prefill is one request of `prefill_tokens` from an empty
cache; decode is one token for each of `decode_batch` requests that hold `context` tokens.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from autoadapter.artifacts import CostProfile, Hardware, LayerGroup, ModelProfile, OperatorCost
from autoadapter.artifacts.model_structure import Operator, Split
from autoadapter.engine.kernels import kernel_row
from autoadapter.hardware import Gpu, Rate, gpu_of
from autoadapter.plan.cost_of_tokens import Step, cache_work, state_work
from autoadapter.plan.legality import VOCAB_PADDING, Layout

ELEMENT = 2
"""Bytes of an activation or of a 16-bit weight."""
WEIGHTS = "weights"
OTHER = "norms and others"
Phase = Literal["prefill", "decode"]


@dataclass(frozen=True)
class WorkPoint:
    """What the two phases process."""

    prefill_tokens: int = 2048
    decode_batch: int = 1
    context: int = 4096
    """Tokens that each decoding request holds."""
    kv_element_bytes: int = 2
    """1 with an FP8 KV cache."""


class Work(NamedTuple):
    """FLOPs and bytes of one operator on one rank, all its layers together."""

    name: str
    flops: float
    bytes: float
    rate: Rate


def cost_profile(
    profile: ModelProfile, hardware: Hardware, layout: Layout, point: WorkPoint | None = None
) -> CostProfile | None:
    """Operators of prefill and decode on one rank; None for a CPU or hardware outside the catalogue.

    Pipeline stages work one after another, so all layers are counted whatever the pipeline size.
    """
    gpu = gpu_of(hardware)
    if gpu is None:
        return None
    point = point or WorkPoint()
    steps: tuple[tuple[Phase, Step], ...] = (
        ("prefill", Step(point.prefill_tokens, 1, 0, point.kv_element_bytes)),
        ("decode", Step(point.decode_batch, point.decode_batch, point.context, point.kv_element_bytes)),
    )
    costs = tuple(cost for phase, step in steps for cost in _phase(profile, gpu, layout, phase, step))
    return CostProfile(
        prefill_tokens=point.prefill_tokens,
        decode_batch=point.decode_batch,
        context=point.context,
        parallelism=layout.as_artifact(),
        operators=costs,
        ridge=gpu.flops_per_second("bf16") / (gpu.bandwidth_gb_s * 1e9),
        source=_source(profile, gpu),
    )


def _source(profile: ModelProfile, gpu: Gpu) -> str:
    floor = f"floor at datasheet rates (hardware/gpus.yaml#{gpu.name}); real steps are slower"
    if _has_operators(profile):
        return floor
    return f"{floor}; operators are not known one by one, each layer's weights count as one"


def _has_operators(profile: ModelProfile) -> bool:
    return any(group.operators for group in profile.structure.groups)


def _phase(profile: ModelProfile, gpu: Gpu, layout: Layout, phase: Phase, step: Step) -> Iterator[OperatorCost]:
    """Operators of the same name are summed; those of a layer come first, in the layers' order."""
    sums: dict[str, list[Work]] = {}
    for work in _works(profile, gpu, layout, step):
        sums.setdefault(work.name, []).append(work)
    for name, works in sums.items():
        compute = sum(work.flops / gpu.flops_per_second(work.rate) for work in works)
        memory = sum(work.bytes for work in works) / (gpu.bandwidth_gb_s * 1e9)
        yield OperatorCost(
            name=name,
            phase=phase,
            flops=sum(work.flops for work in works),
            bytes=sum(work.bytes for work in works),
            seconds=sum(_seconds(work, gpu) for work in works),
            bound="compute" if compute > memory else "memory",
        )


def _seconds(work: Work, gpu: Gpu) -> float:
    return max(work.flops / gpu.flops_per_second(work.rate), work.bytes / (gpu.bandwidth_gb_s * 1e9))


def _works(profile: ModelProfile, gpu: Gpu, layout: Layout, step: Step) -> Iterator[Work]:
    for group in profile.structure.groups:
        layers = len(group.layers)
        for work in _layer(profile, gpu, layout, group, step):
            yield work._replace(flops=work.flops * layers, bytes=work.bytes * layers)
    yield from _ends(profile, layout, step)


def _layer(profile: ModelProfile, gpu: Gpu, layout: Layout, group: LayerGroup, step: Step) -> Iterator[Work]:
    """Work of one layer."""
    operators = group.operators or tuple(_lumped(profile, group))
    for operator in operators:
        yield _product(profile, gpu, layout, operator, step)
    rest = group.weights.total - sum(operator.weight_bytes for operator in operators)
    if rest > 0:
        yield Work(OTHER, 0, rest, "bf16")
    for name, flops, size in cache_work(profile, group, layout.tensor, step):
        yield Work(name, flops, size, "bf16")
    for name, flops, size in state_work(group, layout.tensor, step):
        yield Work(name, flops, size, "bf16")


def _product(profile: ModelProfile, gpu: Gpu, layout: Layout, operator: Operator, step: Step) -> Work:
    """A matrix product; each rank reads its own part of the weights once a step."""
    share = _share(profile, layout, operator.split)
    flops = 2.0 * operator.inputs * operator.outputs * operator.active * step.tokens
    rate = _rate(profile, gpu, operator.dtype)
    if operator.split != "experts":
        return Work(operator.name, flops * share, operator.weight_bytes * share, rate)
    everywhere = step.tokens * layout.data
    touched = expected_experts(operator.copies, operator.active, everywhere) / max(1, operator.copies)
    ranks = layout.expert_ranks
    return Work(operator.name, flops * layout.data / ranks, operator.weight_bytes * touched / ranks, rate)


def _share(profile: ModelProfile, layout: Layout, split: Split) -> float:
    heads = max(1, profile.attention.num_key_value_heads)
    return {
        "split": 1 / layout.tensor,
        "kv": 1 / min(layout.tensor, heads),
        "replicated": 1.0,
        "experts": 1 / layout.expert_ranks,
    }[split]


def _rate(profile: ModelProfile, gpu: Gpu, dtype: str) -> Rate:
    """The matrix unit that a weight feeds: 16 bit unless the GPU's kernel for the checkpoint computes in fewer."""
    row = kernel_row(profile, dtype)
    run = row.run_on(gpu.compute_capability) if row else None
    return run.rate if run else "bf16"


def expected_experts(experts: int, per_token: int, tokens: float) -> float:
    """Experts that at least one of `tokens` uses, if the router draws evenly: `E × (1 - (1 - k/E)^tokens)`."""
    unused: float = (1 - min(1.0, per_token / max(1, experts))) ** tokens
    return experts * (1 - unused)


def _lumped(profile: ModelProfile, group: LayerGroup) -> Iterator[Operator]:
    """A layer's weights as one operator a split, where its operators are not known; `outputs` is their count."""
    moe, shares = profile.moe, group.weights
    sizes: tuple[tuple[Split, int], ...] = (
        ("split", shares.split),
        ("kv", shares.kv),
        ("replicated", shares.replicated),
        ("experts", shares.experts),
    )
    for split, size in sizes:
        if not size:
            continue
        is_routed = split == "experts" and moe is not None
        copies, active = (moe.num_experts, moe.num_experts_per_tok) if is_routed and moe else (1, 1)
        dtype, element = _stored(profile)
        count = int(size / element / copies)
        yield Operator(
            name="experts" if split == "experts" else WEIGHTS,
            inputs=1,
            outputs=count,
            split=split,
            copies=copies,
            active=active,
            weight_bytes=size,
            dtype=dtype,
        )


def _stored(profile: ModelProfile) -> tuple[str, float]:
    """Served dtype of a linear weight and bytes of an element; scales are not told apart."""
    quantization = profile.quantization
    if quantization is not None and quantization.bits and quantization.method != "gguf":
        return f"{quantization.bits} bit", quantization.bits / 8
    return profile.memory.served_dtype, 4 if profile.memory.served_dtype == "float32" else ELEMENT


def _ends(profile: ModelProfile, layout: Layout, step: Step) -> Iterator[Work]:
    """The vocabulary's two ends: rows of the embedding, and logits of the last token of each request."""
    embedding, structure = profile.embedding, profile.structure
    padded = -(-embedding.vocab_size // VOCAB_PADDING) * VOCAB_PADDING
    row = structure.embedding_bytes / max(1, embedding.vocab_size)
    yield Work("embed_tokens", 0, row * step.tokens / layout.tensor, "bf16")
    head = (structure.head_bytes or structure.embedding_bytes) * padded / max(1, embedding.vocab_size)
    flops = 2.0 * padded * embedding.hidden_size * step.requests
    yield Work("lm_head", flops / layout.tensor, head / layout.tensor, "bf16")


def active_parameters(profile: ModelProfile) -> int | None:
    """Weights that one token passes, embedding and head included once each; None where operators are not known."""
    return _parameters(profile, lambda operator: operator.active)


def all_parameters(profile: ModelProfile) -> int | None:
    """Weights of the language model, by the headers or else by its matrices; None where neither is known."""
    return profile.tensors.parameters or _parameters(profile, lambda operator: operator.copies)


def _parameters(profile: ModelProfile, count: Callable[[Operator], int]) -> int | None:
    if not _has_operators(profile):
        return None
    layers = sum(
        len(group.layers) * operator.inputs * operator.outputs * count(operator)
        for group in profile.structure.groups
        for operator in group.operators
    )
    table = profile.embedding.vocab_size * profile.embedding.hidden_size
    return layers + table * (1 if profile.embedding.tied else 2)
