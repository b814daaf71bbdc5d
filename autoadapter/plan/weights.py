"""Bytes of weights on each rank, from the profile's structure.

Checked against public vLLM 0.19 logs in tests/unit/plan/test_accuracy.py.
"""

from dataclasses import dataclass

from autoadapter.artifacts import LayerGroup, ModelProfile, ModelStructure, Scheme
from autoadapter.artifacts.model_structure import Split
from autoadapter.engine.schemes import scheme as scheme_row
from autoadapter.once import once_each
from autoadapter.plan.beyond import layer_extra, rope_table, rounding
from autoadapter.plan.legality import VOCAB_PADDING, Layout

SCALE_BITS_PER_CHANNEL = 32
"""One scale a channel, at most fp32; compressed-tensors writes bf16 or fp32."""
SCALE_BITS_PER_GROUP = 16


@dataclass(frozen=True)
class Spread:
    """How one layout and scheme change a layer's weights."""

    layout: Layout
    kept: float = 1.0
    """Bytes of a quantized linear weight over its bytes before."""


def is_estimated(profile: ModelProfile) -> bool:
    """Whether the size comes from the configuration because no tensor headers were there to read."""
    return not profile.structure.from_headers


def unreliable_estimate(profile: ModelProfile) -> str | None:
    """Why a size from this configuration is no more than a guess, or None."""
    if profile.mlp is None and profile.moe is None and profile.state is None:
        return "the configuration does not state the width of its MLP, which is not counted"
    if profile.state is not None and profile.state.bytes_per_request is None:
        return "its recurrent layers are of an unknown kind"
    return None


def weight_bytes(profile: ModelProfile, scheme: Scheme, layout: Layout) -> int:
    """Bytes of weights on the fullest rank of a layout."""
    return max(stage_weights(profile, scheme, layout))


def stage_weights(profile: ModelProfile, scheme: Scheme, layout: Layout) -> tuple[int, ...]:
    """Bytes on a rank of each pipeline stage.

    The embedding and the encoders stand in the first stage, the head and the final norm in the last; a tied head is
    the embedding itself within one stage and a second copy of it in another (vLLM 0.32 `PPMissingLayer`).
    """
    structure, spread = profile.structure, Spread(layout, _kept(profile, scheme))
    sizes = [*_spans(structure, spread)]
    vocab = profile.embedding.vocab_size
    table = _table(structure.embedding_bytes, vocab, layout)
    head = _table(structure.head_bytes, vocab, layout)
    sizes[0] += table + sum(encoder.weight_bytes for encoder in structure.encoders) / layout.tensor
    sizes[-1] += head + structure.other_bytes
    if len(sizes) > 1 and not structure.head_bytes:
        sizes[-1] += table
    return tuple(int(size + rope_table(profile)) for size in sizes)


def _table(size: int, vocab_size: int, layout: Layout) -> float:
    part = padded(size, vocab_size) / layout.tensor
    return part + rounding(part)


def padded(table_bytes: int, vocab_size: int) -> float:
    """Bytes of a vocabulary table once its rows are padded to a multiple of 64."""
    if not vocab_size:
        return table_bytes
    return table_bytes * (-(-vocab_size // VOCAB_PADDING) * VOCAB_PADDING / vocab_size)


def stages(num_layers: int, pipeline: int) -> tuple[range, ...]:
    """Layers of each pipeline stage: the rest goes to the stages before the last, from the back.

    Source: vLLM 0.32 `distributed/utils.py` `get_pp_indices`.
    """
    sizes = [num_layers // pipeline] * pipeline
    for offset in range(2, num_layers % pipeline + 2):
        sizes[-offset] += 1
    starts = [sum(sizes[:number]) for number in range(pipeline)]
    return tuple(range(start, start + size) for start, size in zip(starts, sizes, strict=True))


@once_each
def _spans(structure: ModelStructure, spread: Spread) -> tuple[float, ...]:
    """Bytes of each stage's layers on one rank."""
    each = [(group.layers, _on_rank(group, spread)) for group in structure.groups]
    return tuple(
        sum(sum(layer in span for layer in layers) * size for layers, size in each)
        for span in stages(structure.num_layers, spread.layout.pipeline)
    )


def _on_rank(group: LayerGroup, spread: Spread) -> float:
    """Bytes of one layer on one rank."""
    weights, layout = group.weights, spread.layout
    shares: dict[Split, float] = {
        "split": 1 / layout.tensor,
        "kv": _kv_part(group, layout),
        "replicated": 1.0,
        "experts": 1 / layout.expert_ranks,
    }
    linear = weights.split * shares["split"] + weights.kv * shares["kv"] + weights.experts * shares["experts"]
    return linear * spread.kept + weights.replicated + layer_extra(group, layout, shares, spread.kept)


def _kv_part(group: LayerGroup, layout: Layout) -> float:
    """Part of a layer's key/value heads that one tensor-parallel rank holds, by its first cache.

    Source: vLLM 0.32 `config/model.py` `get_num_kv_heads`.
    """
    heads = max(1, group.caches[0].kv_heads) if group.caches else layout.tensor
    return max(1, -(-heads // layout.tensor)) / heads


def _kept(profile: ModelProfile, scheme: Scheme) -> float:
    bits = scheme_row(scheme.name).served_bits
    if bits is None:
        return 1.0
    element = 4 if profile.memory.served_dtype == "float32" else 2
    group = scheme.options.get("group_size")
    scales = (
        SCALE_BITS_PER_GROUP / group
        if isinstance(group, int)
        else SCALE_BITS_PER_CHANNEL / max(1, profile.embedding.hidden_size)
    )
    return (bits + scales) / (8 * element)
