"""How a model is built, layer by layer: what memory, layouts and costs are computed from.

Sizes are those of the whole model on one device. How a rank's part follows from them is told by `Split`.
"""

from typing import Literal

from autoadapter.artifacts.base import Frozen

Split = Literal["split", "kv", "replicated", "experts"]
"""How tensor parallelism of size TP spreads a weight.

- `split`: divided by TP.
- `kv`: divided by the smaller of TP and the key/value heads, repeated beyond that.
- `replicated`: whole on every rank.
- `experts`: dealt out over TP × DP ranks, whole (expert parallelism) or in slices.

The vocabulary's two ends are apart: their rows are padded to a multiple of 64 and divided by TP.
"""

Mixer = Literal["full_attention", "sliding_attention", "chunked_attention", "state", "hybrid", "none"]
"""What mixes tokens in a layer; `hybrid` is attention and a recurrent block side by side."""


class CacheEntry(Frozen):
    """What one layer keeps of every token. A layer may keep several, or none (shared KV, recurrent layers)."""

    kind: Literal["full_attention", "sliding_attention", "chunked_attention", "mla", "indexer"]
    """`mla` keeps one latent and no values; `indexer` is the key cache of sparse attention (DSA)."""
    kv_heads: int
    """Of the whole model; 1 for `mla` and `indexer`, which tensor parallelism does not divide."""
    key_dim: int
    """Elements a head; under `mla` latent and rotary part together."""
    value_dim: int
    """Elements a head; 0 under `mla` and `indexer`."""
    window: int | None = None
    """Tokens of the sliding window or of a chunk."""
    dtype: str = "cache"
    """`cache`: as `--kv-cache-dtype` says; else fixed: `uint8`, `bfloat16`, `float32`."""
    tokens_per_entry: int = 1
    """Tokens that share one entry (DeepSeek-V4's compressed caches)."""


class StateEntry(Frozen):
    """One tensor of what a recurrent layer keeps per request, however long the request is.

    A rank holds `(elements + (groups + extra) × elements_per_group) / TP` elements, where `extra` is `TP - groups`
    when TP does not divide the groups, else 0. Source: vLLM 0.32 `mamba_utils.py` `extra_groups_for_head_shards`.
    """

    name: str
    """`conv` or `ssm`, vLLM's own words."""
    elements: int
    groups: int = 0
    elements_per_group: int = 0
    dtype: str
    """`bfloat16`, `float16`, `float32`."""


class Operator(Frozen):
    """One matrix product of a layer, per token."""

    name: str
    """transformers' word without layer and prefix: `q_proj`, `gate_up_proj`, `experts.down_proj`, `lm_head`."""
    inputs: int
    outputs: int
    split: Split
    copies: int = 1
    """How many of them the layer has: routed experts."""
    active: int = 1
    """How many of them one token uses."""
    weight_bytes: int
    """All copies as served, scales and zero points included."""
    dtype: str
    """How the weight is stored when served: `bfloat16`, `fp8`, `int4`, `mxfp4`, …"""


class WeightShares(Frozen):
    """Bytes as served, by how tensor parallelism spreads them."""

    split: int = 0
    kv: int = 0
    replicated: int = 0
    experts: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.split + self.kv + self.replicated + self.experts


class LayerGroup(Frozen):
    """Decoder layers that are alike."""

    layers: tuple[int, ...]
    """Their numbers, ascending, counted from 0."""
    mixer: Mixer
    feed_forward: Literal["dense", "moe", "none"]
    caches: tuple[CacheEntry, ...] = ()
    """Of one layer."""
    states: tuple[StateEntry, ...] = ()
    """Of one layer."""
    operators: tuple[Operator, ...] = ()
    """Of one layer; they explain the weights but for norms, biases and what the config does not tell."""
    weights: WeightShares
    """Of one layer, everything counted."""


class Encoder(Frozen):
    """A tower beside the language model."""

    modality: Literal["image", "video", "audio", "unknown"]
    model_type: str
    weight_bytes: int
    """As served; with its projector."""
    tokens_per_item: int | None = None
    """Prompt tokens that one image, frame or clip of the largest default size takes; None where it is not known."""
    why: str
    """How `tokens_per_item` follows, or why it is not known."""


class ModelStructure(Frozen):
    """The language model's layers, its two ends, and what stands beside it."""

    groups: tuple[LayerGroup, ...]
    embedding_bytes: int
    """Input embedding as served, rows not padded."""
    head_bytes: int
    """Output head as served, rows not padded; 0 when it is the embedding itself."""
    other_bytes: int = 0
    """At the ends and on every rank: final norm, position tables."""
    encoders: tuple[Encoder, ...] = ()
    predictor_bytes: int = 0
    """Layers of multi-token prediction: stored, and loaded for speculative decoding only."""
    from_headers: bool
    """Whether weights are the tensor headers' own; else they follow from the configuration."""

    @property
    def num_layers(self) -> int:
        """Decoder layers."""
        return sum(len(group.layers) for group in self.groups)

    @property
    def served_bytes(self) -> int:
        """Everything that is loaded, on one device."""
        layers = sum(len(group.layers) * group.weights.total for group in self.groups)
        towers = sum(encoder.weight_bytes for encoder in self.encoders)
        return layers + self.embedding_bytes + self.head_bytes + self.other_bytes + towers
