"""Profiles of well-known shapes, from their public config.json, and wishes to plan for them."""

from uniform_structure import uniform_structure

from autoadapter.artifacts import (
    Hardware,
    ModelKind,
    ModelProfile,
    ModelRef,
    Route,
    Strategy,
    Verdict,
    Workload,
)
from autoadapter.artifacts.model_profile import (
    AttentionTraits,
    Dependencies,
    EmbeddingTraits,
    MemoryFacts,
    MlpTraits,
    MoeTraits,
    QuantizationTraits,
    TensorCensus,
    TokenizerTraits,
)
from autoadapter.hardware import gpus
from autoadapter.plan import PlanRequest

GIB = 1024**3
CPU = Hardware(name="cpu", kind="cpu", count=1, memory_bytes=16 * GIB, source="a test")


def gpu(name: str, count: int = 1) -> Hardware:
    """A catalogued GPU."""
    row = next(row for row in gpus() if row.name == name)
    return Hardware(
        name=name,
        kind="cuda",
        count=count,
        memory_bytes=int(row.memory_gib * GIB),
        compute_capability=row.compute_capability,
        source="a test",
    )


def profile(
    *,
    name: str,
    parameters: int,
    embedding: EmbeddingTraits,
    attention: AttentionTraits,
    mlp: MlpTraits | None,
    kv_bytes_per_token: int,
    moe: MoeTraits | None = None,
    served_bytes: int | None = None,
    quantization: QuantizationTraits | None = None,
    max_model_len: int = 8192,
    model_type: str = "llama",
    architecture: str = "LlamaForCausalLM",
    outcome: str = "will_start",
    route: Route = Route.NATIVE,
    has_chat_template: bool = True,
) -> ModelProfile:
    """A whole profile."""
    size = served_bytes or parameters * 2
    return ModelProfile(
        tool_version="0.0.0",
        ref=ModelRef(kind=ModelKind.HUB, location=name),
        architecture=architecture,
        model_type=model_type,
        max_model_len=max_model_len,
        tensors=TensorCensus(
            format="safetensors", files=(), tensors=1, parameters=parameters, bytes=size, parameters_by_dtype={}
        ),
        embedding=embedding,
        attention=attention,
        mlp=mlp,
        moe=moe,
        rope=None,
        state=None,
        tokenizer=TokenizerTraits(
            kind="bpe-byte-level",
            files=("tokenizer.json",),
            vocab_size=embedding.vocab_size,
            special_tokens=(),
            stop_token_ids=(2,),
            has_chat_template=has_chat_template,
        ),
        quantization=quantization,
        remote_code=None,
        dependencies=Dependencies(transformers=None),
        memory=MemoryFacts(
            weight_bytes=size,
            served_weight_bytes=size,
            served_dtype="bfloat16",
            kv_bytes_per_token=kv_bytes_per_token,
        ),
        structure=uniform_structure(attention, embedding, moe, size),
        verdict=Verdict.model_validate(
            {"outcome": outcome, "route": route, "vllm_version": "0.32.0", "reason": "a reason", "decisions": ()}
        ),
        license=None,
        sources={},
        findings=(),
    )


def smollm2() -> ModelProfile:
    """SmolLM2-135M."""
    return profile(
        name="example/smollm2-135m",
        parameters=134_515_008,
        embedding=EmbeddingTraits(vocab_size=49152, hidden_size=576, tied=True),
        attention=AttentionTraits(kind="gqa", num_layers=30, num_attention_heads=9, num_key_value_heads=3, head_dim=64),
        mlp=MlpTraits(intermediate_size=1536, activation="silu", gated=True),
        kv_bytes_per_token=23_040,
    )


def llama_8b() -> ModelProfile:
    """Llama-3.1-8B."""
    return profile(
        name="example/llama-8b",
        parameters=8_030_261_248,
        embedding=EmbeddingTraits(vocab_size=128_256, hidden_size=4096, tied=False),
        attention=AttentionTraits(
            kind="gqa", num_layers=32, num_attention_heads=32, num_key_value_heads=8, head_dim=128
        ),
        mlp=MlpTraits(intermediate_size=14_336, activation="silu", gated=True),
        kv_bytes_per_token=131_072,
        max_model_len=131_072,
    )


def llama_70b() -> ModelProfile:
    """Llama-3.1-70B."""
    return profile(
        name="example/llama-70b",
        parameters=70_553_706_496,
        embedding=EmbeddingTraits(vocab_size=128_256, hidden_size=8192, tied=False),
        attention=AttentionTraits(
            kind="gqa", num_layers=80, num_attention_heads=64, num_key_value_heads=8, head_dim=128
        ),
        mlp=MlpTraits(intermediate_size=28_672, activation="silu", gated=True),
        kv_bytes_per_token=327_680,
        max_model_len=131_072,
    )


def qwen3_8b() -> ModelProfile:
    """Qwen3-8B."""
    return profile(
        name="example/qwen3-8b",
        parameters=8_190_735_360,
        embedding=EmbeddingTraits(vocab_size=151_936, hidden_size=4096, tied=False),
        attention=AttentionTraits(
            kind="gqa", num_layers=36, num_attention_heads=32, num_key_value_heads=8, head_dim=128
        ),
        mlp=MlpTraits(intermediate_size=12_288, activation="silu", gated=True),
        kv_bytes_per_token=147_456,
        max_model_len=40_960,
        architecture="Qwen3ForCausalLM",
        model_type="qwen3",
    )


def qwen3_14b() -> ModelProfile:
    """Qwen3-14B: 40 heads, and a vocabulary that 5 does not divide once it is padded."""
    return profile(
        name="example/qwen3-14b",
        parameters=14_768_307_200,
        embedding=EmbeddingTraits(vocab_size=151_936, hidden_size=5120, tied=False),
        attention=AttentionTraits(
            kind="gqa", num_layers=40, num_attention_heads=40, num_key_value_heads=8, head_dim=128
        ),
        mlp=MlpTraits(intermediate_size=17_408, activation="silu", gated=True),
        kv_bytes_per_token=163_840,
        max_model_len=40_960,
        architecture="Qwen3ForCausalLM",
        model_type="qwen3",
    )


def qwen3_30b() -> ModelProfile:
    """Qwen3-30B-A3B."""
    return profile(
        name="example/qwen3-30b-a3b",
        parameters=30_532_122_624,
        embedding=EmbeddingTraits(vocab_size=151_936, hidden_size=2048, tied=False),
        attention=AttentionTraits(
            kind="gqa", num_layers=48, num_attention_heads=32, num_key_value_heads=4, head_dim=128
        ),
        mlp=MlpTraits(intermediate_size=6144, activation="silu", gated=True),
        moe=MoeTraits(num_experts=128, num_experts_per_tok=8, moe_intermediate_size=768),
        kv_bytes_per_token=98_304,
        max_model_len=40_960,
        architecture="Qwen3MoeForCausalLM",
        model_type="qwen3_moe",
    )


def mla_16b(*, quantization: QuantizationTraits | None = None) -> ModelProfile:
    """DeepSeek-V2-Lite."""
    return profile(
        name="example/mla-16b",
        parameters=15_706_484_224,
        embedding=EmbeddingTraits(vocab_size=102_400, hidden_size=2048, tied=False),
        attention=AttentionTraits(
            kind="mla",
            num_layers=27,
            num_attention_heads=16,
            num_key_value_heads=16,
            head_dim=576,
            kv_lora_rank=512,
            qk_rope_head_dim=64,
        ),
        mlp=MlpTraits(intermediate_size=10_944, activation="silu", gated=True),
        moe=MoeTraits(
            num_experts=64, num_experts_per_tok=6, moe_intermediate_size=1408, num_shared_experts=2, num_dense_layers=1
        ),
        kv_bytes_per_token=27 * 576 * 2,
        max_model_len=163_840,
        quantization=quantization,
        architecture="DeepseekV2ForCausalLM",
        model_type="deepseek_v2",
    )


def wish(
    hardware: Hardware,
    strategy: Strategy = Strategy.MAX_PERF,
    *,
    workload: Workload | None = None,
    scheme: str | None = None,
    max_model_len: int | None = None,
    served_name: str | None = None,
    vllm_version: str = "0.32.0",
    engine_args: dict[str, bool | int | float | str] | None = None,
) -> PlanRequest:
    """A request with the defaults of the command line."""
    return PlanRequest(
        strategy=strategy,
        hardware=hardware,
        workload=workload or Workload(),
        vllm_version=vllm_version,
        scheme=scheme,
        max_model_len=max_model_len,
        served_name=served_name,
        engine_args=engine_args or {},
    )
