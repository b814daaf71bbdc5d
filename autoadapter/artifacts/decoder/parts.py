"""Small parts that several blocks of a decoder use: norms, rotary embeddings, windows."""

from typing import Literal

from autoadapter.artifacts.base import Frozen
from autoadapter.artifacts.decoder.values import Value

Activation = Literal[
    "silu",
    "gelu",
    "gelu_new",
    "gelu_pytorch_tanh",
    "quick_gelu",
    "relu",
    "relu2",
    "sigmoid",
    "tanh",
    "xielu",
]
"""transformers' names; `gelu` is the exact one. `xielu` brings parameters `alpha_p`, `alpha_n` (Apertus)."""


class Norm(Frozen):
    """A normalisation over the last axis, in float32 as the reference does it.

    `rms`: x / √(mean(x²) + eps); `layer`: (x - mean) / √(var + eps); `l2`: x / √(sum(x²) + eps).
    Then `× weight` (`× (1 + weight)` under `one_plus`; nothing without a weight) and `+ bias`.
    Parameters: `weight`, `bias`, each of the normalised width.
    """

    kind: Literal["rms", "layer", "l2"]
    eps: Value
    weight: Literal["plain", "one_plus", "none"] = "plain"
    bias: bool = False
    groups: Value | None = None
    """The last axis is normalised in this many equal parts, under one weight of the full width."""


class Rope(Frozen):
    """Rotary position embedding of queries and keys.

    `neox` rotates pairs (i, i + rotary_dim/2), `interleaved` pairs (2i, 2i + 1). A reference that first permutes
    interleaved pairs into halves and then rotates them as `neox` is `interleaved`: scores are the same.
    Frequencies are transformers' `ROPE_INIT_FUNCTIONS[rope_type]` on the dict at `parameters`.
    """

    style: Literal["neox", "interleaved"]
    rotary_dim: Value
    """How many of the head's elements are rotated (even)."""
    place: Literal["leading", "trailing"] = "leading"
    parameters: str | None = None
    """Dotted path of the dict in the config: `rope_parameters`, `rope_parameters.full_attention`; None when the
    config holds none, then `theta` and `rope_type` say all."""
    theta: Value
    rope_type: str = "default"
    """transformers' word: default, linear, dynamic, yarn, longrope, llama3."""
    position_offset: int = 0
    """Added to the position before rotating."""
    negative: bool = False
    """Rotates by the negative angle (NanoChat)."""


class Window(Frozen):
    """Which earlier tokens a layer sees.

    `sliding`: query i sees keys j with i - j < size (transformers' and vLLM's meaning of `sliding_window`);
    `chunked`: keys of the same chunk of `size` tokens (Llama 4).
    """

    kind: Literal["sliding", "chunked"] = "sliding"
    size: Value


class Alibi(Frozen):
    """Linear attention biases: score(i, j) += slope(head) · (j - i), constants per query row being free.

    `power_of_two` (Press et al. 2021; BLOOM, Falcon): slopes of the closest smaller power of two, base 2^(-8/n), then
    every second one of twice that. `mpt`: base 2^(-alibi_bias_max/n) over the next power of two, odd ones first.
    """

    slopes: Literal["power_of_two", "mpt"] = "power_of_two"
    bias_max: Value | None = None
    scaled: bool = False
    """The bias is multiplied by the attention scale, too (Falcon)."""
