"""Quantization groups and blocks against shards: neither may straddle one.

Where tensor parallelism cuts a matrix's inputs (down and output projections) a shard must hold whole groups. Outputs of
merged matrices (QKV, gate and up) may end in a partial block: vLLM 0.25 to 0.33 `linear.py`
`_maybe_allow_fp8_block_shape_mismatch`.
"""

from typing import NamedTuple

from autoadapter.artifacts import ModelProfile
from autoadapter.once import once_each
from autoadapter.plan.legality.layout import Refusal
from autoadapter.plan.legality.sizes import ROW_PARALLEL, dense_width, is_latent, split_operators

GROUP_SOURCE = "vLLM 0.32 distributed/utils.py verify_group_size_divides_partition; auto_awq.py create_weights"
BLOCK_SOURCE = "vLLM 0.32 quantization/utils/fp8_utils.py validate_fp8_block_shape"
SCALED_BLOCKS = ("fp8", "deepseek_v4_fp8")
"""Methods whose `group_size` is the side of a two-dimensional block."""
UNGROUPED = ("gguf", "bitsandbytes", "mxfp4", "gpt_oss_mxfp4")
"""GGUF and bitsandbytes are cut by rows; vLLM pads MXFP4 experts to whole blocks a rank (`gpt_oss.py`)."""
PLAIN = ("bfloat16", "float16", "float32")
PADDING_RANKS = 8
"""Padding is proposed for up to eight ranks."""
PADDED_SHARED_EXPERTS = "DeepseekV4"
"""Its shared expert is padded to whole blocks a rank (vLLM 0.25 to 0.33 `models/deepseek_v4/nvidia/model.py`)."""
MLP, ATTENTION = "mlp", "attention"


class Cut(NamedTuple):
    """A size that tensor parallelism divides."""

    name: str
    size: int


def group_of(profile: ModelProfile) -> int | None:
    """Inputs that share a scale, None where nothing straddles."""
    quantization = profile.quantization
    if quantization is None or quantization.method in UNGROUPED:
        return None
    group = quantization.block_size[1] if quantization.block_size else quantization.group_size
    return group if group and group > 0 else None


def has_blocks(profile: ModelProfile) -> bool:
    """Whether outputs share scales as well (FP8 with `weight_block_size`)."""
    quantization = profile.quantization
    if quantization is None or group_of(profile) is None:
        return False
    return quantization.block_size is not None or quantization.method in SCALED_BLOCKS


@once_each
def quantized_shards(profile: ModelProfile, tensor: int) -> Refusal | None:
    """Inputs that no rank divides must hold whole groups, and so must shards of those that are divided."""
    group = group_of(profile)
    if group is None:
        return None
    hidden = profile.embedding.hidden_size
    if hidden % group and not has_blocks(profile):
        reason = f"its quantization groups of {group} do not fill the {hidden} inputs of its projections"
        return Refusal(reason, GROUP_SOURCE, f"no layout helps: quantize again in groups of {_filling(hidden, group)}")
    for cut in _cuts(profile) if tensor > 1 else ():
        if cut.size % tensor == 0 and cut.size // tensor % group:
            return _straddling(profile, group, cut, tensor)
    return None


def _filling(size: int, group: int) -> int:
    """The largest halved group that divides a size."""
    while group > 1 and size % group:
        group //= 2
    return group


def _cuts(profile: ModelProfile) -> list[Cut]:
    """From the traits, and from the operators where they are known; what stays plain has no groups."""
    width, attention = dense_width(profile), profile.attention
    found = [] if width is None else [Cut(MLP, width)]
    operators = [operator for _, operator in split_operators(profile) if ROW_PARALLEL.search(operator.name)]
    if not operators and not is_latent(profile):
        found.append(Cut(ATTENTION, attention.num_attention_heads * attention.head_dim))
    quantized = (operator for operator in operators if operator.dtype not in PLAIN)
    return found + [Cut(each.name, each.inputs) for each in quantized if not _is_padded(profile, each.name)]


def _is_padded(profile: ModelProfile, name: str) -> bool:
    return profile.architecture.startswith(PADDED_SHARED_EXPERTS) and name.startswith("shared_expert")


def _straddling(profile: ModelProfile, group: int, cut: Cut, tensor: int) -> Refusal:
    source = BLOCK_SOURCE if has_blocks(profile) else GROUP_SOURCE
    where = "" if cut.name in (MLP, ATTENTION) else f" ({cut.name})"
    reason = f"its quantization groups of {group} straddle shards of {cut.size // tensor}{where}"
    return Refusal(reason, source, remedy(group, cut.size))


def remedy(group: int, size: int) -> str:
    """A wider matrix or smaller groups: both are decided before the checkpoint is quantized."""
    step = group * PADDING_RANKS
    padded = -(-size // step) * step
    smaller = next((part for part in (64, 32) if part < group and size % (2 * part) == 0), None)
    less = f", or quantize in groups of {smaller}" if smaller else ""
    if padded == size:
        return f"a smaller tensor-parallel size{less}"
    return f"zero-pad {size} to {padded} before quantizing{less}; until then a smaller size, replicas or stages"


def block_refusal(profile: ModelProfile, tensor: int) -> str | None:
    """Why a checkpoint that is quantized in groups cannot be split so, or None."""
    refusal = quantized_shards(profile, tensor)
    return refusal.reason if refusal else None
