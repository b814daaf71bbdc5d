"""What vLLM holds on a device beside the numbers of the checkpoint, as part of its "model loading".

- MLA: `kv_b_proj` is kept as it is and once more split into its two halves at 16 bit, for decoding
  (vLLM 0.32 `layers/attention/mla_attention.py` `process_weights_after_loading`).
- RoPE: sines and cosines of every position (`layers/rotary_embedding/base.py` `cos_sin_cache`).
- The allocator: blocks of 10 MiB and more come in multiples of 2 MiB, and what is left over is lost unless it is more
  than 1 MiB (PyTorch `c10/cuda/CUDACachingAllocator.cpp` `should_split`). vLLM holds Q, K and V as one matrix, gate
  and up as one, and each projection of all experts as one; scales lie apart.
"""

from typing import NamedTuple

from autoadapter.artifacts import LayerGroup, ModelProfile
from autoadapter.artifacts.model_structure import Operator, Split
from autoadapter.once import once_each
from autoadapter.plan.legality import Layout

MIB = 1024**2
LARGE, STEP, LOST = 10 * MIB, 2 * MIB, MIB
ABSORBED = "kv_b_proj"
FUSED = {"q_proj": "qkv", "k_proj": "qkv", "v_proj": "qkv", "gate_proj": "gate_up", "up_proj": "gate_up"}
ELEMENT = 2


class Held(NamedTuple):
    """An operator's part of a matrix that vLLM holds."""

    split: Split
    numbers: int
    weight_bytes: int


def layer_extra(group: LayerGroup, layout: Layout, shares: dict[Split, float], kept: float) -> float:
    """Bytes of one layer on one rank.

    Args:
        group: the layer.
        layout: how it is spread.
        shares: by `Split`, the part of a matrix that the rank holds.
        kept: bytes of a quantized weight over its bytes before.
    """
    waste = sum(rounding(sum(_bare(part, kept) * shares[part.split] for part in matrix)) for matrix in _held(group))
    return waste + sum(
        ELEMENT * operator.inputs * operator.outputs / layout.tensor
        for operator in group.operators
        if operator.name == ABSORBED
    )


@once_each
def _held(group: LayerGroup) -> tuple[tuple[Held, ...], ...]:
    """The matrices that vLLM makes of a layer's operators."""
    fused: dict[str, list[Held]] = {}
    for operator in group.operators:
        numbers = operator.inputs * operator.outputs * operator.copies
        fused.setdefault(_fused_name(operator), []).append(Held(operator.split, numbers, operator.weight_bytes))
    return tuple(map(tuple, fused.values()))


def _bare(part: Held, kept: float) -> float:
    """Bytes of the numbers alone, scales not counted: whole bits a number."""
    return part.numbers * round(8 * part.weight_bytes * kept / max(1, part.numbers)) / 8


def _fused_name(operator: Operator) -> str:
    where, dot, last = operator.name.rpartition(".")
    return f"{where}{dot}{FUSED.get(last, last)}"


def rounding(size: float) -> float:
    """What the allocator adds to a block of so many bytes."""
    rest = -size % STEP
    return rest if size >= LARGE and rest <= LOST else 0.0


def rope_table(profile: ModelProfile) -> int:
    """Bytes of sines and cosines of every position that the scaling reaches; 0 without rotary positions.

    Linear scaling makes the table longer by its factor, for Gemma-3 too, whose context is the unscaled one. Where only
    full layers are scaled, the sliding ones have a second, plain table.
    """
    rope, attention = profile.rope, profile.attention
    if rope is None:
        return 0
    width = attention.qk_rope_head_dim or int(attention.head_dim * rope.partial_rotary_factor)
    positions = profile.max_model_len
    if rope.kind == "linear" and "gemma3" in profile.model_type:
        positions = int(positions * (rope.factor or 1))
    mixers = {group.mixer for group in profile.structure.groups}
    if rope.kind != "default" and {"sliding_attention", "full_attention"} <= mixers:
        positions += profile.max_model_len
    return ELEMENT * width * positions
