"""What `analyze` finds out: `profile.json`."""

from enum import StrEnum
from typing import ClassVar, Literal

from autoadapter.artifacts.base import Artifact, Frozen
from autoadapter.artifacts.finding import Finding
from autoadapter.artifacts.model_ref import ModelRef
from autoadapter.artifacts.model_structure import ModelStructure


class WeightFile(Frozen):
    """One file of weights. `digest` is the Hub's SHA-256 (LFS) when known, never computed by reading weights."""

    name: str
    bytes: int
    digest: str | None = None


class TensorCensus(Frozen):
    """What the tensor headers say: the truth for sizes and dtypes."""

    format: Literal["safetensors", "pytorch", "gguf", "none"]
    files: tuple[WeightFile, ...]
    tensors: int
    parameters: int
    """Elements of weights: scales, zero points and stored buffers not counted; tied weights once."""
    bytes: int
    """Bytes of tensor data as stored, headers not counted."""
    parameters_by_dtype: dict[str, int]
    """Elements per stored dtype, in safetensors' words (`BF16`, `F32`, `I8`) or GGML's (`Q4_1`)."""


class AttentionTraits(Frozen):
    """How tokens see each other."""

    kind: Literal["mha", "gqa", "mqa", "mla", "linear", "hybrid", "none"]
    num_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    sliding_window: int | None = None
    """Tokens a sliding layer sees; None when no layer slides."""
    num_sliding_layers: int = 0
    kv_lora_rank: int | None = None
    qk_rope_head_dim: int | None = None
    qk_norm: bool = False
    bias: bool = False
    sinks: bool = False
    layer_types: tuple[str, ...] = ()
    """Per layer, in transformers' words; empty when all layers are alike."""


class RopeTraits(Frozen):
    """Rotary position embedding."""

    theta: float
    kind: str
    """transformers' `rope_type`: `default`, `linear`, `dynamic`, `yarn`, `llama3`, …"""
    factor: float | None = None
    original_max_position_embeddings: int | None = None
    partial_rotary_factor: float = 1.0


class MlpTraits(Frozen):
    """The token-wise block."""

    intermediate_size: int
    activation: str
    gated: bool
    bias: bool = False


class MoeTraits(Frozen):
    """Mixture of experts."""

    num_experts: int
    num_experts_per_tok: int
    moe_intermediate_size: int
    num_shared_experts: int = 0
    num_dense_layers: int = 0
    scoring: str = "softmax"
    latent_size: int | None = None
    """Width that routed experts work on where it is not the hidden size (Nemotron-H's latent experts)."""


class StateTraits(Frozen):
    """Recurrent layers, whose state is per request and not per token."""

    kind: str
    num_layers: int
    bytes_per_request: int | None = None


class EmbeddingTraits(Frozen):
    """The vocabulary's two ends."""

    vocab_size: int
    hidden_size: int
    tied: bool


class QuantizationTraits(Frozen):
    """What a checkpoint says of its own quantization."""

    method: str
    """vLLM's word: `compressed-tensors`, `gptq`, `awq`, `fp8`, `modelopt`, `gguf`, …"""
    bits: int | None = None
    group_size: int | None = None
    symmetric: bool | None = None
    ignored: tuple[str, ...] = ()
    source: str


class SpecialToken(Frozen):
    """A token with a role."""

    role: str
    """`bos`, `eos`, `pad`, `unk`, `additional`."""
    text: str
    id: int | None


class TokenizerTraits(Frozen):
    """What the tokenizer files say. Nothing of it runs."""

    kind: Literal[
        "bpe-byte-level", "bpe", "sentencepiece", "wordpiece", "unigram", "tiktoken", "tekken", "gguf", "custom", "none"
    ]
    files: tuple[str, ...]
    vocab_size: int | None
    special_tokens: tuple[SpecialToken, ...]
    stop_token_ids: tuple[int, ...]
    """Union of config, generation_config and the template's end-of-turn token."""
    padding_side: Literal["left", "right"] | None = None
    has_chat_template: bool
    chat_template_source: str | None = None


class RemoteCode(Frozen):
    """Code that the checkpoint brings along. It is read, never run, without `--trust-remote-code`."""

    auto_map: dict[str, str]
    files: tuple[str, ...]


class Route(StrEnum):
    """design.md section 2, in the order they are tried."""

    NATIVE = "native"
    ALIAS = "alias"
    TRANSFORMERS = "transformers"
    SHIM = "shim"
    GENERATED = "generated"
    UNSUPPORTED = "unsupported"


class RouteDecision(Frozen):
    """One route that was considered, and why it was or was not taken."""

    route: Route
    taken: bool
    reason: str
    source: str


class Verdict(Frozen):
    """Will it run on the target engine?"""

    outcome: Literal["will_start", "starts_but_wrong", "will_not_start", "unprovable_here"]
    route: Route
    vllm_version: str
    reason: str
    decisions: tuple[RouteDecision, ...]


class MemoryFacts(Frozen):
    """Bytes that follow from the model alone, on one device without sharding."""

    weight_bytes: int
    """As the checkpoint stores them."""
    served_weight_bytes: int
    """As the engine holds them at `served_dtype`; GGUF and fp32 checkpoints differ from the file."""
    served_dtype: str
    kv_bytes_per_token: int
    """All layers, at a 16-bit KV cache."""
    kv_window_bytes_per_token: int = 0
    """Part of it in layers that see a sliding window only; those hold the window and no more."""
    state_bytes_per_request: int = 0


class Dependencies(Frozen):
    """What must be installed to run it."""

    transformers: str | None
    """Version that wrote the checkpoint, from config.json."""
    extras: tuple[str, ...] = ()
    """Names of AutoAdapter's extras that later stages need for this model."""


class ModelProfile(Artifact):
    """The truth about a model from its headers and configs alone."""

    file_name: ClassVar[str] = "profile.json"
    stage: ClassVar[str] = "analyze"

    ref: ModelRef
    architecture: str
    model_type: str
    max_model_len: int
    """Tokens of context the model states (after rope scaling, as vLLM derives it)."""
    tensors: TensorCensus
    embedding: EmbeddingTraits
    attention: AttentionTraits
    mlp: MlpTraits | None
    moe: MoeTraits | None
    rope: RopeTraits | None
    state: StateTraits | None
    tokenizer: TokenizerTraits
    quantization: QuantizationTraits | None
    remote_code: RemoteCode | None
    dependencies: Dependencies
    memory: MemoryFacts
    structure: ModelStructure
    verdict: Verdict
    license: str | None
    sources: dict[str, str]
    """Field path → where its value was read (`attention.head_dim` → `config.json:head_dim`)."""
    findings: tuple[Finding, ...]
