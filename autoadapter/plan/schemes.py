"""How the weights should be stored: candidates by strategy, and why each other scheme is not taken."""

from collections.abc import Iterator
from dataclasses import dataclass

from autoadapter.artifacts import ModelProfile, Rejection, Scheme, Strategy
from autoadapter.engine.schemes import SchemeRow, scheme, schemes
from autoadapter.errors import UserError
from autoadapter.plan.legality import Layout, dense_width
from autoadapter.plan.request import PlanRequest

TILE = 16
"""Cutlass INT8 and FP8 kernels take matrices whose sides are multiples of 16. Source: vLLM `scaled_mm/cutlass.py`."""
CPU_TILE = 32
"""Source: vLLM 0.32 `kernels/linear/mixed_precision/cpu.py`."""
CONV1D_MODELS = ("gpt2", "openai-gpt", "imagegpt")
"""Their projections are transformers' Conv1D, which the quantizer's `targets: Linear` does not see."""
ORDER: dict[tuple[str, Strategy], tuple[str, ...]] = {
    ("cuda", Strategy.MAX_PERF): ("fp8_dynamic", "int8_w8a8", "as_is"),
    ("cuda", Strategy.BALANCED): ("fp8_dynamic", "int8_w8a8", "as_is"),
    ("cuda", Strategy.MIN_MEM): ("w4a16_gptq", "fp8_dynamic", "int8_w8a8", "as_is"),
    ("cpu", Strategy.MAX_PERF): ("int8_w8a8", "as_is"),
    ("cpu", Strategy.BALANCED): ("int8_w8a8", "as_is"),
    ("cpu", Strategy.MIN_MEM): ("int8_w8a8", "as_is"),
}
NOT_IN_ORDER = {
    "w4a16_gptq": "it needs calibration and costs more quality than 8 bits; `min_mem` on a GPU or --scheme asks for it",
}
WHY = {
    "w4a16_gptq": "the smallest weights that vLLM serves here",
    "fp8_dynamic": "half the weight bytes and the faster matrix unit, without calibration",
    "int8_w8a8": "half the weight bytes that every decode step reads, without calibration",
    "as_is": "no smaller scheme applies here",
}


@dataclass(frozen=True)
class SchemeChoice:
    """The schemes to try, best first, and those that are out before any layout is known."""

    candidates: tuple[SchemeRow, ...]
    rejected: tuple[Rejection, ...]
    by_user: bool


def is_quantized(profile: ModelProfile) -> bool:
    """Whether the checkpoint is quantized in a way that vLLM serves as it is. GGUF is converted and does not count."""
    return profile.quantization is not None and profile.quantization.method != "gguf"


def scheme_choice(profile: ModelProfile, request: PlanRequest) -> SchemeChoice:
    """Candidates for a model, a device and a strategy.

    Raises:
        UserError: `--scheme` is unknown, or this model or hardware cannot have it.
    """
    if request.scheme is not None:
        row = scheme(request.scheme)
        if reason := _refusal(profile, request, row):
            raise UserError(f"--scheme {row.name}: {reason}.", hint="Leave out --scheme and the strategy chooses.")
        others = tuple(
            Rejection(choice=other.name, reason="the user chose another scheme", source="--scheme")
            for other in schemes()
            if other != row
        )
        return SchemeChoice((row,), others, by_user=True)
    order = ("as_is",) if is_quantized(profile) else ORDER[request.hardware.kind, request.strategy]
    usable = tuple(row for name in order if _refusal(profile, request, row := scheme(name)) is None)
    return SchemeChoice(usable, tuple(_early_rejections(profile, request, usable)), by_user=False)


def _early_rejections(
    profile: ModelProfile, request: PlanRequest, usable: tuple[SchemeRow, ...]
) -> Iterator[Rejection]:
    for row in schemes():
        if row in usable:
            continue
        reason = _refusal(profile, request, row) or NOT_IN_ORDER.get(row.name, "another scheme is preferred here")
        yield Rejection(choice=row.name, reason=reason, source=_source(profile, row))


def _source(profile: ModelProfile, row: SchemeRow) -> str:
    return profile.quantization.source if is_quantized(profile) and profile.quantization else row.source


def _refusal(profile: ModelProfile, request: PlanRequest, row: SchemeRow) -> str | None:
    """Why a scheme is out whatever the layout, or None."""
    if row.name == "as_is":
        return None
    if is_quantized(profile) and profile.quantization:
        bits = f" ({profile.quantization.bits} bit)" if profile.quantization.bits else ""
        return f"the checkpoint is already quantized with {profile.quantization.method}{bits}"
    return row.refusal(request.hardware) or _model_refusal(profile, row)


def _model_refusal(profile: ModelProfile, row: SchemeRow) -> str | None:
    kind = profile.attention.kind
    if profile.model_type in CONV1D_MODELS:
        return f"the projections of {profile.model_type} are Conv1D, which the quantizer does not target"
    if profile.state is not None or kind in ("linear", "hybrid", "none"):
        return "recurrent layers have projections that this scheme was not proven on"
    if profile.moe is not None:
        return "no quantizer here writes experts that can be measured and served"
    if profile.architecture.endswith("ForConditionalGeneration"):
        return "the quantizer does not cover multimodal models"
    if kind == "mla" and row.group_sizes:
        return "the inputs of MLA projections are not known from the configuration, so no group size is safe"
    return None


def shape_refusal(profile: ModelProfile, row: SchemeRow, layout: Layout, *, on_cpu: bool) -> str | None:
    """Why a scheme's kernel cannot take the model's matrices under a layout, or None."""
    if row.served_bits is None:
        return None
    inputs = sharded_inputs(profile, layout.tensor)
    if row.group_sizes and group_size(profile, row, layout) is None:
        listed = ", ".join(map(str, sorted(set(inputs))))
        return f"no group size of {', '.join(map(str, row.group_sizes))} divides all of the inputs {listed}"
    tile = CPU_TILE if on_cpu and row.group_sizes else TILE
    odd = next((size for size in inputs if size % tile), None)
    return f"its kernel needs multiples of {tile}, a matrix has {odd} inputs" if odd else None


def group_size(profile: ModelProfile, row: SchemeRow, layout: Layout) -> int | None:
    """The first preferred group size that divides every linear layer's inputs on one rank.

    Source: vLLM 0.32 `distributed/utils.py` `divide`: a shard must hold a whole number of groups.
    """
    inputs = sharded_inputs(profile, layout.tensor)
    return next((group for group in row.group_sizes if not any(size % group for size in inputs)), None)


def sharded_inputs(profile: ModelProfile, tensor: int) -> tuple[int, ...]:
    """Input features of the linear layers on one tensor-parallel rank: QKV and gate/up, output, down."""
    attention = profile.attention
    inputs = [profile.embedding.hidden_size]
    if attention.kind != "mla":
        inputs.append(attention.num_attention_heads * attention.head_dim // tensor)
    width = dense_width(profile)
    if width is not None:
        inputs.append(width // tensor)
    if profile.moe is not None:
        inputs.append(profile.moe.moe_intermediate_size)
    return tuple(inputs)


def as_scheme(profile: ModelProfile, row: SchemeRow, layout: Layout, *, by_user: bool) -> Scheme:
    """The scheme as `plan.json` carries it."""
    group = group_size(profile, row, layout) if row.group_sizes else None
    if is_quantized(profile):
        why = "the checkpoint is quantized already and vLLM serves it so"
    else:
        why = "the user asked for it" if by_user else WHY[row.name]
    return Scheme(
        name=row.name,
        backend=row.backend,
        options={} if group is None else {"group_size": group},
        why=why,
        source="--scheme" if by_user else _source(profile, row),
    )
