"""Profiles and plans by hand: what `analyze` and `generate` would write for small Llama checkpoints."""

from pathlib import Path
from typing import Any

from uniform_structure import uniform_structure

from autoadapter.artifacts import (
    Hardware,
    MemoryBudget,
    ModelKind,
    ModelProfile,
    ModelRef,
    Parallelism,
    Route,
    Scheme,
    ServingPlan,
    Strategy,
    Workload,
)
from autoadapter.artifacts.model_profile import (
    AttentionTraits,
    Dependencies,
    EmbeddingTraits,
    MemoryFacts,
    MlpTraits,
    RouteDecision,
    TensorCensus,
    TokenizerTraits,
    Verdict,
    WeightFile,
)

CPU = Hardware(name="cpu", kind="cpu", count=1, memory_bytes=24 << 30, source="test")
SMOLLM2_PARAMETERS = 134_515_008
ATTENTION = AttentionTraits(kind="gqa", num_layers=30, num_attention_heads=9, num_key_value_heads=3, head_dim=64)
EMBEDDING = EmbeddingTraits(vocab_size=49152, hidden_size=576, tied=True)


def make_profile(location: Path, *, kind: ModelKind = ModelKind.FOLDER, **changes: Any) -> ModelProfile:
    """SmolLM2-135M's shape at `location`; `changes` replace fields."""
    decision = RouteDecision(route=Route.NATIVE, taken=True, reason="test", source="test")
    verdict = Verdict(
        outcome="will_start",
        route=Route.NATIVE,
        vllm_version="0.32.0",
        reason="test",
        decisions=(decision,),
    )
    values: dict[str, Any] = {
        "tool_version": "test",
        "ref": ModelRef(kind=kind, location=str(location)),
        "architecture": "LlamaForCausalLM",
        "model_type": "llama",
        "max_model_len": 8192,
        "tensors": make_census(location),
        "embedding": EMBEDDING,
        "attention": ATTENTION,
        "mlp": MlpTraits(intermediate_size=1536, activation="silu", gated=True),
        "moe": None,
        "rope": None,
        "state": None,
        "tokenizer": TokenizerTraits(
            kind="bpe-byte-level",
            files=("tokenizer.json",),
            vocab_size=49152,
            special_tokens=(),
            stop_token_ids=(2,),
            has_chat_template=True,
        ),
        "quantization": None,
        "remote_code": None,
        "dependencies": Dependencies(transformers="5.0"),
        "memory": MemoryFacts(
            weight_bytes=269_030_016,
            served_weight_bytes=269_030_016,
            served_dtype="bfloat16",
            kv_bytes_per_token=23_040,
        ),
        "structure": uniform_structure(ATTENTION, EMBEDDING, None, 269_030_016),
        "verdict": verdict,
        "license": None,
        "sources": {},
        "findings": (),
    }
    return ModelProfile(**(values | changes))


def make_census(location: Path, *, form: str | None = None, parameters: int = SMOLLM2_PARAMETERS) -> TensorCensus:
    """What the headers would say of the weight files at `location`."""
    gguf = location.suffix == ".gguf"
    suffix = ".gguf" if gguf else ".bin" if form == "pytorch" else ".safetensors"
    paths = [location] if gguf else sorted(location.glob(f"*{suffix}"))
    files = tuple(WeightFile(name=path.name, bytes=path.stat().st_size if path.exists() else 0) for path in paths)
    return TensorCensus(
        format=form or ("gguf" if gguf else "safetensors"),
        files=files,
        tensors=272,
        parameters=parameters,
        bytes=parameters * 2,
        parameters_by_dtype={"BF16": parameters},
    )


def make_scheme(name: str = "as_is", **options: Any) -> Scheme:
    """A scheme as the planner would write it."""
    backend = None if name == "as_is" else "llmcompressor"
    return Scheme(name=name, backend=backend, options=options, why="test", source="test")


def make_plan(profile: ModelProfile, scheme: Scheme, hardware: Hardware = CPU) -> ServingPlan:
    """A plan that asks for `scheme`."""
    return ServingPlan(
        tool_version="test",
        model=profile.ref,
        profile_digest=profile.digest(),
        route=Route.NATIVE,
        strategy=Strategy.BALANCED,
        hardware=hardware,
        workload=Workload(),
        vllm_version="0.32.0",
        served_name="model",
        scheme=scheme,
        parallelism=Parallelism(),
        settings=(),
        env=(),
        memory=MemoryBudget(
            device_bytes=1,
            weight_bytes=1,
            overhead_bytes=1,
            kv_pool_bytes=1,
            kv_bytes_per_token=1,
            kv_tokens=1,
            max_concurrency=1.0,
            provenance={},
        ),
        rejected=(),
        findings=(),
    )
