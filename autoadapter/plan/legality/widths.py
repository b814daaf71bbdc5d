"""Widths that tensor parallelism divides: MLPs, projections, the vocabulary."""

from autoadapter.artifacts import ModelProfile
from autoadapter.plan.legality.layout import Refusal
from autoadapter.plan.legality.sizes import VOCAB_PADDING, dense_width, split_dimension, split_operators

LINEAR_SOURCE = "vLLM 0.32 layers/linear.py: divide() in ColumnParallelLinear and RowParallelLinear"
VOCAB_SOURCE = "vLLM 0.32 layers/vocab_parallel_embedding.py: divide(num_embeddings_padded, TP)"


def vocabulary(profile: ModelProfile, tensor: int) -> Refusal | None:
    """The vocabulary, padded to a multiple of 64, must be divisible by TP."""
    padded = -(-profile.embedding.vocab_size // VOCAB_PADDING) * VOCAB_PADDING
    if padded % tensor == 0:
        return None
    return Refusal(f"the vocabulary, padded to {padded}, cannot be divided by {tensor}", VOCAB_SOURCE)


def intermediate_size(profile: ModelProfile, tensor: int) -> Refusal | None:
    """The dense MLPs' width must be divisible by TP."""
    width = dense_width(profile)
    if width is None or width % tensor == 0:
        return None
    return Refusal(f"the intermediate size {width} cannot be divided by {tensor}", LINEAR_SOURCE)


def split_widths(profile: ModelProfile, tensor: int) -> Refusal | None:
    """Every other projection that is divided: of layers with widths of their own, of shared experts, of mixers."""
    for group, operator in split_operators(profile):
        size = split_dimension(operator)
        if size % tensor:
            where = f" of layer {group.layers[0]}" if len(profile.structure.groups) > 1 else ""
            return Refusal(f"{operator.name}{where}: {size} cannot be divided by {tensor}", LINEAR_SOURCE)
    return None
