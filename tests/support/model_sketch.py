"""A model and its sizing, written by hand: a hybrid mixture of experts with a vision tower, on two GPUs."""

from autoadapter.artifacts import (
    CacheEntry,
    CostProfile,
    DeviceFact,
    Encoder,
    Finding,
    Hardware,
    Interval,
    KvCapacity,
    LayerGroup,
    LayoutSizing,
    Level,
    ModelKind,
    ModelProfile,
    ModelRef,
    ModelStructure,
    OperatorCost,
    Parallelism,
    Route,
    Sizing,
    StateEntry,
    Verdict,
    WeightShares,
)
from autoadapter.artifacts.model_profile import (
    AttentionTraits,
    Dependencies,
    EmbeddingTraits,
    MemoryFacts,
    MoeTraits,
    RouteDecision,
    TensorCensus,
    TokenizerTraits,
)

GIB = 1024**3
MIB = 1024**2


def sketch_structure(layers: int = 24) -> ModelStructure:
    """Every fourth layer attends, the others keep a state; the first layer is dense."""
    cache = CacheEntry(kind="full_attention", kv_heads=2, key_dim=256, value_dim=256)
    state = StateEntry(name="ssm", elements=32 * 128 * 128, dtype="float32")
    shares = WeightShares(split=40 * MIB, kv=4 * MIB, experts=800 * MIB)
    full = tuple(range(3, layers, 4))
    rest = tuple(number for number in range(1, layers) if number not in full)
    return ModelStructure(
        groups=(
            LayerGroup(
                layers=(0,), mixer="state", feed_forward="dense", states=(state,), weights=WeightShares(split=8)
            ),
            LayerGroup(layers=rest, mixer="state", feed_forward="moe", states=(state,), weights=shares),
            LayerGroup(layers=full, mixer="full_attention", feed_forward="moe", caches=(cache,), weights=shares),
        ),
        embedding_bytes=600 * MIB,
        head_bytes=600 * MIB,
        encoders=(
            Encoder(
                modality="image", model_type="vit", weight_bytes=900 * MIB, tokens_per_item=1024, why="64 × 64 / 4"
            ),
        ),
        from_headers=True,
    )


def sketch_profile(
    name: str = "someone/hybrid-20b",
    *,
    architecture: str = "HybridMoeForCausalLM",
    outcome: str = "will_start",
    findings: tuple[Finding, ...] = (),
) -> ModelProfile:
    """A profile around `sketch_structure`."""
    structure = sketch_structure()
    reason = f"vLLM 0.32.0 serves {architecture} natively."
    size = structure.served_bytes
    return ModelProfile(
        tool_version="0.0.0",
        ref=ModelRef(kind=ModelKind.HUB, location=name),
        architecture=architecture,
        model_type="hybrid_moe",
        max_model_len=262144,
        tensors=TensorCensus(
            format="safetensors",
            files=(),
            tensors=512,
            parameters=size // 2,
            bytes=size,
            parameters_by_dtype={"BF16": size // 2},
        ),
        embedding=EmbeddingTraits(vocab_size=151936, hidden_size=2048, tied=False),
        attention=AttentionTraits(
            kind="hybrid", num_layers=24, num_attention_heads=16, num_key_value_heads=2, head_dim=256
        ),
        mlp=None,
        moe=MoeTraits(num_experts=128, num_experts_per_tok=8, moe_intermediate_size=512),
        rope=None,
        state=None,
        tokenizer=TokenizerTraits(
            kind="bpe-byte-level",
            files=("tokenizer.json",),
            vocab_size=151669,
            special_tokens=(),
            stop_token_ids=(151645, 151643),
            has_chat_template=True,
            chat_template_source="chat_template.jinja",
        ),
        quantization=None,
        remote_code=None,
        dependencies=Dependencies(transformers="5.1.0"),
        memory=MemoryFacts(
            weight_bytes=size,
            served_weight_bytes=size,
            served_dtype="bfloat16",
            kv_bytes_per_token=6 * 2048,
            state_bytes_per_request=18 * 2 * MIB,
        ),
        structure=structure,
        verdict=Verdict.model_validate(
            {
                "outcome": outcome,
                "route": Route.NATIVE,
                "vllm_version": "0.32.0",
                "reason": reason,
                "decisions": (
                    RouteDecision(route=Route.NATIVE, taken=True, reason=reason, source="engine/registry/0.32.0.json"),
                ),
            }
        ),
        license="apache-2.0",
        sources={"max_model_len": "config.json:max_position_embeddings"},
        findings=findings,
    )


def interval(low: float, likely: float, high: float) -> Interval:
    """GiB."""
    low_bytes, likely_bytes, high_bytes = (int(value * GIB) for value in (low, likely, high))
    return Interval(low=low_bytes, likely=likely_bytes, high=high_bytes, source="a test")


def layout(tensor: int, weights: float, pool: float, *, reason: str | None = None, pipeline: int = 1) -> LayoutSizing:
    """A layout by GiB of weights and of KV pool on a device."""
    legal = reason is None
    capacity = KvCapacity(
        block_size=544,
        bytes_per_block=MIB,
        blocks=int(pool * 1024),
        blocks_per_request=500,
        max_concurrency=pool / 5,
        tokens=int(pool * 50_000),
        tokens_in_blocks=int(pool * 40_000),
        longest=min(int(pool * 50_000), 262144),
    )
    return LayoutSizing(
        parallelism=Parallelism(tensor_parallel_size=tensor, pipeline_parallel_size=pipeline),
        expert_parallel=False,
        legal=legal,
        reason=reason,
        fits=legal,
        weight_bytes=int(weights * GIB),
        activation=interval(1.0, 1.4, 1.9) if legal else None,
        non_torch=interval(0.2, 0.3, 0.5) if legal else None,
        graphs=interval(0.4, 0.6, 0.9) if legal else None,
        kv_pool=interval(pool - 0.8, pool, pool + 0.7) if legal else None,
        kv=capacity if legal else None,
        arithmetic=f"71.27 - {weights} - 2.3 = {pool}",
    )


def sketch_cost() -> CostProfile:
    """Two operators a phase on an H100: bound by compute in prefill, by memory in decode."""
    rate, peak = 3350e9, 989e12
    sizes = {"experts.gate_up_proj": 2.1e12, "qkv_proj": 4e11, "o_proj": 1e11, "lm_head": 3e11}
    operators = []
    for name, flops in sizes.items():
        moved = flops / 600
        operators.append((name, "prefill", flops, moved, flops / peak, "compute"))
        operators.append((name, "decode", flops / 500, moved, moved / rate, "memory"))
    names = ("name", "phase", "flops", "bytes", "seconds", "bound")
    return CostProfile(
        prefill_tokens=8192,
        decode_batch=16,
        context=32768,
        parallelism=Parallelism(),
        operators=tuple(OperatorCost.model_validate(dict(zip(names, row, strict=True))) for row in operators),
        ridge=peak / rate,
        source="datasheet of the H100",
    )


def sketch_sizing(
    name: str = "h100", *, layouts: tuple[LayoutSizing, ...] | None = None, kind: str = "cuda", count: int = 2
) -> Sizing:
    """The sketch on GPUs of 79 GiB."""
    refused = "16 heads are not divisible by 3; vLLM wants num_attention_heads % tensor_parallel_size == 0"
    usual = (layout(1, 20.1, 48.0), layout(2, 10.3, 58.2), layout(3, 7.0, 0.0, reason=refused))
    return Sizing(
        tool_version="0.0.0",
        profile_digest="0" * 64,
        hardware=Hardware.model_validate(
            {
                "name": name,
                "kind": kind,
                "count": count,
                "memory_bytes": int(79.19 * GIB),
                "compute_capability": "9.0",
                "source": "a test",
            }
        ),
        vllm_version="0.32.0",
        max_model_len=262144,
        gpu_memory_utilization=0.9,
        layouts=usual if layouts is None else layouts,
        device_facts=(
            DeviceFact(topic="scheme", text="FP8 has kernels here", good=True, source="gpus.yaml"),
            DeviceFact(topic="attention", text="2 KV heads are repeated from TP4 on", good=False, source="config.json"),
        ),
        cost=sketch_cost(),
        smallest="l40s:1",
        findings=(
            Finding(code="plan.tight", level=Level.WARNING, message="The pool is an estimate.", source="a test"),
        ),
    )
