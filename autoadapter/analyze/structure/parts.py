"""What a layer is made of, before anything is said of how a checkpoint stores it."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from autoadapter.analyze.feed_forward import FeedForward
from autoadapter.artifacts.model_structure import Mixer, Split


@dataclass(frozen=True, slots=True)
class Matrix:
    """The weight of one matrix product, `copies` times over."""

    name: str
    """As `Operator.name` has it."""
    module: str
    """Path below the layer, as quantization configs name it: `self_attn.q_proj`."""
    inputs: int
    outputs: int
    split: Split
    copies: int = 1
    active: int = 1
    bias: int = 0
    """Elements of the biases of one copy."""
    quantizable: bool = True
    """False for routers and the like, which every scheme leaves alone."""
    stored: bool = True
    """False where it is the weight of an earlier layer (Zamba's blocks)."""


class Vector(NamedTuple):
    """Norm weights, convolutions and other parameters that are no matrix product."""

    elements: int
    split: Split = "replicated"
    bits: int = 16


class Parts(NamedTuple):
    """Matrices and vectors of a block or a layer."""

    matrices: tuple[Matrix, ...] = ()
    vectors: tuple[Vector, ...] = ()

    def not_stored(self) -> "Parts":
        """The same, when the weights are those of an earlier layer."""
        return Parts(tuple(replace(matrix, stored=False) for matrix in self.matrices))

    def plus(self, other: "Parts") -> "Parts":
        """Both together."""
        return Parts(self.matrices + other.matrices, self.vectors + other.vectors)


class LayerShape(NamedTuple):
    """Which layer it is, and of what kind."""

    number: int
    mixer: Mixer
    feed_forward: FeedForward
    hybrids_before: int = 0
    """Layers before it that attend beside a recurrent block."""


class Names(NamedTuple):
    """How a family names the blocks of a layer."""

    attention: str = "self_attn"
    recurrent: str = "mamba"
    dense: str = "mlp"
    moe: str = "mlp"
    shared: str = "shared_experts"


BLOCK_SPARSE = Names(moe="block_sparse_moe", dense="mlp")
MIXER = Names("mixer", "mixer", "mixer", "mixer")
NAMES = {
    "mixtral": BLOCK_SPARSE, "phimoe": BLOCK_SPARSE, "granitemoe": BLOCK_SPARSE, "minimax": BLOCK_SPARSE,
    "minimax_m2": BLOCK_SPARSE, "minimax_m3": BLOCK_SPARSE, "minimax_m3_vl": BLOCK_SPARSE,
    "kimi_linear": Names(recurrent="self_attn", moe="block_sparse_moe"),
    "granitemoehybrid": Names(dense="shared_mlp", moe="block_sparse_moe", shared="shared_mlp"),
    "nemotron_h": MIXER, "nemotron_h_puzzle": MIXER,
    "deepseek_v4": Names("attn", dense="ffn", moe="ffn"), "deepseek_ref": Names("attn", dense="ffn", moe="ffn"),
    "lfm2": Names(recurrent="conv", dense="feed_forward", moe="feed_forward"),
    "lfm2_moe": Names(recurrent="conv", dense="feed_forward", moe="feed_forward"),
    "llama4_text": Names(dense="feed_forward", moe="feed_forward", shared="shared_expert"),
    "jamba": Names(dense="feed_forward", moe="feed_forward"),
    "step3p5": Names(moe="moe", shared="share_expert"), "step3p7": Names(moe="moe", shared="share_expert"),
    "gemma4_text": Names(moe="", shared=""),
}  # fmt: skip
"""model_type → names that differ from the common ones."""
SHARED_EXPERT = ("qwen2_moe", "qwen3_5_moe", "qwen3_next", "qwen4")
"""Beginnings of the model types that say `shared_expert`."""


def names_of(model_type: str) -> Names:
    """How a family names its blocks."""
    if model_type.startswith(SHARED_EXPERT) or model_type.startswith("qwen3_5"):
        return Names(recurrent="linear_attn", shared="shared_expert")
    return NAMES.get(model_type, Names())
