"""What the skeleton of a decoder consists of, relative to the branch or to the decoder."""

from dataclasses import dataclass
from typing import Literal

from autoadapter.artifacts.decoder import Branch, Embedding, Evidence, Head, Mixer, Norm, Value
from autoadapter.probe.workers.fit.fitted import Fitted, ParameterUse
from autoadapter.probe.workers.scene import Block


@dataclass(frozen=True)
class BranchSkeleton:
    """A branch of a layer without its mixer; the fields are those of `Branch`, evidence and uses relative to it."""

    block: Block
    reads: Literal["stream", "layer_input"] = "stream"
    input_norm: Norm | None = None
    shares_norm_with: int | None = None
    input_scale: Value | None = None
    output_norm: Norm | None = None
    output_scale: Value | None = None
    stream_scale: Value | None = None
    keeps_normed: bool = False
    post_norm: Norm | None = None
    evidence: tuple[Evidence, ...] = ()
    uses: tuple[ParameterUse, ...] = ()

    def branch(self, mixer: Mixer) -> Branch:
        """The whole branch."""
        return Branch(mixer=mixer, **{name: getattr(self, name) for name in Branch.model_fields if name != "mixer"})


@dataclass(frozen=True)
class LayerSkeleton:
    """The branches of a layer, in the order in which they join the residual stream."""

    layer: int
    branches: tuple[BranchSkeleton, ...]
    error: float
    """Of the layer's output recomposed from the branches' outputs, relative to its largest element."""


@dataclass(frozen=True)
class Ends:
    """What comes before the first layer and after the last; uses are spec names as they are (`embed.weight`)."""

    embedding: Fitted[Embedding]
    norm: Fitted[Norm] | None
    head: Fitted[Head]
