"""`DecoderSpec`: what a decoder-only causal language model computes, as fitted to its reference implementation.

The meaning of every field is what `autoadapter/probe/workers/replay/` computes in plain torch.
"""

from typing import Any, ClassVar, Literal, Self

from autoadapter.artifacts.base import Artifact, Frozen
from autoadapter.artifacts.decoder.layers import LayerKind, LayerPattern
from autoadapter.artifacts.decoder.parts import Activation, Norm
from autoadapter.artifacts.decoder.values import Value


class Positions(Frozen):
    """Absolute positions added to the embeddings.

    `learned`: parameter `positions.weight` [rows, hidden], row position + offset. `sinusoidal`: computed, no parameter:
    `halves` [sin | cos] (fairseq, CTRL) or `interleaved` (sin, cos, sin, …), inverse frequency
    10000^(-i / divisor) with divisor hidden/2 - 1 (`fairseq`) or hidden/2 (`vaswani`).
    """

    kind: Literal["learned", "sinusoidal"]
    offset: int = 0
    order: Literal["halves", "interleaved"] = "halves"
    frequencies: Literal["fairseq", "vaswani"] = "vaswani"
    rows: Value | None = None
    """Of the learned table, `offset` included."""


class Embedding(Frozen):
    """x = norm(scale · `embed.weight`[id], projected, + positions).

    Parameters: `embed.weight` [vocab, width], `embed_proj.weight` [hidden, width] where the width is another,
    `positions.weight`, `embed_norm` (see `Norm`).
    """

    scale: Value | None = None
    scale_in_weight_dtype: bool = False
    """The scale is rounded to the weight's dtype first (Gemma)."""
    width: Value | None = None
    """Only where it differs from hidden_size."""
    positions: Positions | None = None
    norm: Norm | None = None


class HeadTransform(Frozen):
    """norm(act(`head_dense` h)) before the head (BERT-like decoders). Parameters: `head_dense`, `head_norm`."""

    activation: Activation
    bias: bool
    norm: Norm | None


class Head(Frozen):
    """logits = softcap(scale · (`head` h)). Parameters: `head.weight` [vocab, hidden], `head.bias`; none when tied.

    `head_proj.weight` [width, hidden] where the embedding's width is another and the head is tied to it.
    """

    tied: bool
    bias: bool = False
    scale: Value | None = None
    softcap: Value | None = None
    transform: HeadTransform | None = None
    projected: bool = False


class WeightSource(Frozen):
    """Where parameters of the spec lie in the checkpoint.

    A checkpoint tensor, transposed if need be, is cut along its rows into `targets`: its rows are `groups` equal parts,
    and each part holds, target after target in the order given, that target's rows of the part. One part: simply
    stacked. As many parts as heads: per head [q, k, v]. As many as key/value heads: per group [q × g, k, v].
    As many as rows of a target: interleaved.
    """

    checkpoint: str
    """Name with `{layer}` and `{expert}` where they vary: `model.layers.{layer}.self_attn.q_proj.weight`."""
    targets: tuple[str, ...]
    """Spec names: `embed.weight`, `norm.weight`, `head.weight`; of branch 0 of a layer `layers.{layer}.0.q_proj.weight`
    and `layers.{layer}.0.input_norm.weight`."""
    kinds: tuple[int, ...] = ()
    """The kinds whose layers have it so; empty: all (and what is not of a layer)."""
    groups: Value = Value(number=1)
    transposed: bool = False
    """The checkpoint has [inputs, outputs]."""
    experts: Literal["none", "named", "leading", "rows"] = "none"
    """`named`: one tensor an expert (`{expert}`); `leading`: [experts, …]; `rows`: [experts × rows, …]."""
    squeezed: bool = False
    """The checkpoint has a leading axis of one element that the parameter lacks (ERNIE's correction [1, experts])."""
    optional: bool = False
    """A checkpoint may lack it (tied head)."""


class Evidence(Frozen):
    """Why a value of the spec is what it is."""

    path: str
    """Dotted path in the spec: `kinds.0.branches.0.mixer.rope.style`, `embedding.scale`."""
    value: Any
    max_error: float
    """Largest absolute error of the block recomputed with it, relative to the block's largest element."""
    runner_up: Any = None
    """The second-best candidate, in the JSON form of the field at `path`; None where there was no other."""
    runner_up_error: float | None = None


class DecoderSpec(Artifact):
    """A decoder: embedding, layers, final norm (parameters `norm`), head; and what was seen to say so."""

    file_name: ClassVar[str] = "spec.json"
    stage: ClassVar[str] = "generate"

    architecture: str
    """As in `config.json` `architectures`."""
    model_type: str
    hidden_size: Value
    vocab_size: Value
    num_layers: Value
    max_positions: Value | None
    embedding: Embedding
    kinds: tuple[LayerKind, ...]
    pattern: LayerPattern
    norm: Norm | None
    head: Head
    weights: tuple[WeightSource, ...]
    ignored: tuple[str, ...] = ()
    """Checkpoint tensors that the reference does not read either (stored masks, rotary tables)."""
    config_seen: dict[str, Any]
    """The clone's config as JSON: what the fingerprint is made of."""
    evidence: tuple[Evidence, ...] = ()
    replay_error: float
    """Largest absolute difference of log-probabilities, replayed spec against reference, over the whole vocabulary."""
    reference: dict[str, str]
    """Versions of transformers and torch that ran the reference."""

    def with_value(self, path: str, value: Any) -> Self:
        """A copy with another value at a dotted path; `value` in JSON form.

        Raises:
            ValidationError: the value does not fit the field.
        """
        document = self.model_dump(mode="json")
        *parents, last = path.split(".")
        node: Any = document
        for part in parents:
            node = node[int(part)] if isinstance(node, list) else node[part]
        node[int(last) if isinstance(node, list) else last] = value
        return self.model_validate(document)
