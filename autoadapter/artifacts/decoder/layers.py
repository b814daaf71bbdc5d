"""How the blocks of a layer hang on the residual stream, and which layer is of which kind."""

from typing import Annotated, Literal

from pydantic import Field

from autoadapter.artifacts.base import Frozen
from autoadapter.artifacts.decoder.attention import Attention, GatedDeltaNet, LatentAttention, Mamba2, ShortConv
from autoadapter.artifacts.decoder.feed_forward import Mlp, Moe, Opaque
from autoadapter.artifacts.decoder.parts import Norm
from autoadapter.artifacts.decoder.values import Value

Mixer = Annotated[
    Attention | LatentAttention | Mamba2 | ShortConv | GatedDeltaNet | Mlp | Moe | Opaque,
    Field(discriminator="mixer"),
]


class Branch(Frozen):
    """One block of a layer and its way from and to the residual stream.

    ```
    source = stream            (reads "stream": after the branches before it)
           | layer input       (reads "layer_input": a parallel branch)
    n = input_norm(source), or what branch `shares_norm_with` normed
    y = output_norm(mixer(input_scale · n)) · output_scale
    stream = stream_scale · (stream | n under keeps_normed) + y
    stream = post_norm(stream)
    ```
    Parameters: `input_norm`, `output_norm`, `post_norm` (see `Norm`) and, beside them, those of the mixer.
    """

    mixer: Mixer
    reads: Literal["stream", "layer_input"] = "stream"
    input_norm: Norm | None = None
    shares_norm_with: int | None = None
    """Index of an earlier branch of the layer."""
    input_scale: Value | None = None
    output_norm: Norm | None = None
    output_scale: Value | None = None
    stream_scale: Value | None = None
    keeps_normed: bool = False
    post_norm: Norm | None = None


class LayerKind(Frozen):
    """Layers that compute alike."""

    name: str
    """A word for the class: `full_attention`, `sliding_attention`, `dense`, `sparse`; unique in the decoder."""
    branches: tuple[Branch, ...]


class LayerRule(Frozen):
    """How the config tells layers apart; gives each layer a label.

    `list`: `config[key][layer]`; `first`: "head" for layers below `config[key]` (or `number`), else "tail";
    `every`: "hit" where (layer + offset) % `config[key]` (or `number`) == 0, else "miss"; `member`: "in" for layers
    that the list `config[key]` names, else "out".
    """

    rule: Literal["list", "first", "every", "member"]
    key: str | None = None
    number: int | None = None
    offset: int = 0


class LayerPattern(Frozen):
    """Which kind each layer is: fitted for the clone's layers, by rule for a config with other depth."""

    kinds: tuple[int, ...]
    """Index into `DecoderSpec.kinds` of each layer of the clone."""
    rules: tuple[LayerRule, ...] = ()
    table: tuple[tuple[tuple[str, ...], int], ...] = ()
    """One label per rule → kind. Empty with one kind, and where no rule was found: then only this depth is known."""
