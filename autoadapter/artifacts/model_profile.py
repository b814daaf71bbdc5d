"""What `analyze` finds out: `profile.json`."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import ConfigDict, Field

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
    """Of a packed weight; under mixed precision the fewest."""
    group_size: int | None = None
    """Inputs that share one scale; of blocks their columns."""
    block_size: tuple[int, int] | None = None
    """Outputs and inputs that share one scale, where weights are quantized in blocks."""
    symmetric: bool | None = None
    ignored: tuple[str, ...] = ()
    kv_cache_dtype: str | None = None
    """What `--kv-cache-dtype auto` becomes by the checkpoint's word: `fp8_e4m3`, `nvfp4`; None where it has none."""
    algorithms: dict[str, int] = Field(default_factory=dict)
    """Mixed precision: algorithm → modules that are listed for it; empty where one holds for all."""
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecialToken:
    """A token with a role. No model of its own: a tokenizer may have a hundred thousand."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    role: str
    """`bos`, `eos`, `pad`, `unk`, `additional`."""
    text: str
    id: int | None


class TemplateTraits(Frozen):
    """What a chat template can do, read from its Jinja syntax tree. It was not rendered."""

    tools: bool = False
    """It reads `tools` (or `functions`) and so can list them for the model."""
    tool_calls: bool = False
    """It writes an assistant's earlier tool calls."""
    tool_role: bool = False
    """It knows messages that carry a tool's answer (role `tool`, `ipython`, `function`, `observation`)."""
    system_role: bool = False
    """It takes a system message; False also where it refuses one."""
    generation_prompt: bool = False
    """It reads `add_generation_prompt`."""
    thinking: bool = False
    """It writes or cuts reasoning: think tags, `reasoning_content`, or a switch for it."""
    think_tag: str | None = None
    """The opening tag as the template writes it: `<think>`, `[THINK]`, `<seed:think>`."""
    thinking_switch: str | None = None
    """The variable of `chat_template_kwargs` that turns thinking on or off: `enable_thinking`, `thinking`."""
    forced_think: bool = False
    """By default the generation prompt ends in an opened think tag, so that the answer holds the closing one alone."""
    forced_think_switched: bool = False
    """It does so for one value of `thinking_switch`."""
    modalities: tuple[str, ...] = ()
    """Content besides text that it writes placeholders for: `image`, `video`, `audio`."""
    emits_bos: bool = False
    """It writes the BOS token itself."""
    variables: tuple[str, ...] = ()
    """Names it reads that no server passes by itself; `chat_template_kwargs` of a request may set them."""


class TokenizerTraits(Frozen):
    """What the tokenizer files say. Nothing of it runs."""

    kind: Literal[
        "bpe-byte-level", "bpe", "sentencepiece", "wordpiece", "unigram", "tiktoken", "tekken", "gguf", "custom", "none"
    ]
    files: tuple[str, ...]
    vocab_size: int | None
    """One more than the largest token id."""
    embedding_rows: int | None = None
    """Rows of the embedding (`vocab_size` of the config): as many as `vocab_size`, or more where it is padded."""
    special_tokens: tuple[SpecialToken, ...]
    stop_token_ids: tuple[int, ...]
    """Union of config, generation_config and the template's end-of-turn token."""
    stop_sources: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    """Where each of them is said: file → ids, ascending. A file that names none is left out."""
    tokenizer_class: str | None = None
    """As tokenizer_config.json writes it, which need not be a class that exists."""
    slow_only: bool = False
    """There is no tokenizer.json: transformers converts the slow files at each start, or runs the checkpoint's code."""
    add_bos: bool | None = None
    """A BOS token is put before every text that is encoded with special tokens; None when no file says."""
    add_eos: bool | None = None
    """An EOS token is put behind every such text; None when no file says."""
    padding_side: Literal["left", "right"] | None = None
    truncation_side: Literal["left", "right"] | None = None
    model_max_length: int | None = None
    """Tokens; None when unstated or when it is transformers' word for "no limit" (1e30)."""
    has_chat_template: bool
    chat_template_source: str | None = None
    chat_templates: tuple[str, ...] = ()
    """Names of the templates where there are several: `default`, `tool_use`, `rag`."""
    template: TemplateTraits | None = None
    """What the default template can do; None when there is none or it is no Jinja."""
    double_bos: bool = False
    """The template writes BOS and the tokenizer adds another where special tokens are asked for."""


class RemoteCode(Frozen):
    """Code that the checkpoint brings along. It is read, never run, without `--trust-remote-code`."""

    auto_map: dict[str, str]
    files: tuple[str, ...]
    scanned: tuple[str, ...] = ()
    """Files that `auto_map` needs, with those that they import relatively; their syntax tree was read."""
    imports: tuple[str, ...] = ()
    """Packages outside the standard library, torch and transformers that those files cannot do without."""
    optional_imports: tuple[str, ...] = ()
    """Packages that they import inside `try` or behind a check that it is available."""
    missing: tuple[str, ...] = ()
    """Names imported from transformers that the target's transformers lacks, dotted, with file and line."""
    not_run: str | None = None
    """Why the names could not be looked up; None when they were."""


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

    outcome: Literal["will_start", "starts_but_wrong", "will_not_start", "not_generative", "unprovable_here"]
    """`not_generative`: vLLM may well start it, but it writes no text, and AutoAdapter serves what does."""
    route: Route
    vllm_version: str
    reason: str
    hint: str | None = None
    """What to do where nothing is served: the next command, else a sentence."""
    version_unknown: bool = False
    """The outcome is open only because no table reaches back to this vLLM."""
    decisions: tuple[RouteDecision, ...]

    @property
    def is_refused(self) -> bool:
        """Whether there is nothing that the later stages could serve."""
        return self.outcome in ("will_not_start", "not_generative")


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


class PackageNeed(Frozen):
    """A package that the checkpoint's own code imports."""

    name: str
    """As it is imported: `einops`, `flash_attn`."""
    optional: bool = False
    installed: bool | None = None
    """Whether the engine's interpreter has it; None when there is no engine to look at."""


class Dependencies(Frozen):
    """What must be installed to run it."""

    transformers: str | None
    """Version that wrote the checkpoint, from config.json."""
    min_transformers: str | None = None
    """First release that knows the model type and the tokenizer's class. None where none does or only the checkpoint's
    own code, and where every release in the table does: then it is no requirement."""
    max_transformers: str | None = None
    """Last release that knows it, where later ones dropped it."""
    config_by: Literal["transformers", "vllm", "remote-code", "nobody"] | None = None
    """Who reads config.json in the engine. vLLM's own classes come first, then remote code, where it is trusted."""
    installed_transformers: str | None = None
    """Beside the target vLLM; None when it is not installed here."""
    min_vllm: str | None = None
    """First release known to serve the architecture; None where none does, and where the oldest known one does."""
    packages: tuple[PackageNeed, ...] = ()
    """What the checkpoint's own code imports besides torch and transformers."""
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
