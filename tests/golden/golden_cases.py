"""The golden cases: tiny profiles written by hand, each with what a user would ask. Nothing here depends on the machine."""

from dataclasses import dataclass, field
from pathlib import Path

from uniform_structure import uniform_structure

from autoadapter.artifacts import Hardware, ModelKind, ModelProfile, ModelRef, Route, Strategy, Verdict, Workload
from autoadapter.artifacts.model_profile import (
    AttentionTraits,
    Dependencies,
    EmbeddingTraits,
    MemoryFacts,
    MlpTraits,
    MoeTraits,
    QuantizationTraits,
    SpecialToken,
    TensorCensus,
    TokenizerTraits,
)
from autoadapter.generate import render_adapter
from autoadapter.plan import PlanRequest, make_plan
from autoadapter.rendering import replace_folder, write_tree

GIB = 1024**3
CPU = Hardware(name="cpu", kind="cpu", count=1, memory_bytes=16 * GIB, source="written into the case")
H200_8 = Hardware(
    name="h200",
    kind="cuda",
    count=8,
    memory_bytes=int(139.8 * GIB),
    compute_capability="9.0",
    source="written into the case",
)
L4 = Hardware(
    name="l4", kind="cuda", count=1, memory_bytes=22 * GIB, compute_capability="8.9", source="written into the case"
)

CHATML = (
    SpecialToken(role="bos", text="<|im_start|>", id=1),
    SpecialToken(role="eos", text="<|im_end|>", id=2),
    SpecialToken(role="pad", text="<|im_end|>", id=2),
    SpecialToken(role="unk", text="<|endoftext|>", id=0),
)
HOSTILE_NAME = 'a"b\'c\n"""; import os #{{ view }} $(touch x) `y` | <b>'
HOSTILE_TOKENS = (
    SpecialToken(role="bos", text='"""\nimport os\n"""', id=0),
    SpecialToken(role="eos", text="{{ 7 * 7 }}{% raw %}", id=1),
    SpecialToken(role="unk", text='$(reboot) `id` it\'s "so"', id=2),
    SpecialToken(role="additional", text="back\\slash \U0001f600 \u2028 end", id=3),
    SpecialToken(role="additional", text="no id", id=None),
)


@dataclass(frozen=True)
class Case:
    """A profile and a wish."""

    name: str
    profile: ModelProfile
    request: PlanRequest


@dataclass(frozen=True)
class Sketch:
    """What differs between cases."""

    ref: ModelRef
    architecture: str
    model_type: str
    embedding: EmbeddingTraits
    attention: AttentionTraits
    mlp: MlpTraits | None
    parameters: int
    served_bytes: int
    kv_bytes_per_token: int
    stored: dict[str, int] = field(default_factory=dict)
    max_model_len: int = 8192
    moe: MoeTraits | None = None
    quantization: QuantizationTraits | None = None
    tokens: tuple[SpecialToken, ...] = CHATML
    stops: tuple[int, ...] = (2,)
    kind: str = "bpe-byte-level"
    route: Route = Route.NATIVE

    def _element(self) -> float:
        """Bytes of one number of a linear layer as served."""
        packed = self.quantization if self.quantization and self.quantization.method != "gguf" else None
        return packed.bits / 8 if packed and packed.bits else 2

    def profile(self) -> ModelProfile:
        """The whole profile."""
        return ModelProfile(
            tool_version="0.0.0",
            ref=self.ref,
            architecture=self.architecture,
            model_type=self.model_type,
            max_model_len=self.max_model_len,
            tensors=TensorCensus(
                format="gguf" if self.kind == "gguf" else "safetensors",
                files=(),
                tensors=100,
                parameters=self.parameters,
                bytes=self.served_bytes,
                parameters_by_dtype=self.stored or {"BF16": self.parameters},
            ),
            embedding=self.embedding,
            attention=self.attention,
            mlp=self.mlp,
            moe=self.moe,
            rope=None,
            state=None,
            tokenizer=TokenizerTraits.model_validate(
                {
                    "kind": self.kind,
                    "files": () if self.kind == "gguf" else ("tokenizer.json",),
                    "vocab_size": self.embedding.vocab_size,
                    "special_tokens": self.tokens,
                    "stop_token_ids": self.stops,
                    "has_chat_template": bool(self.stops),
                }
            ),
            quantization=self.quantization,
            remote_code=None,
            dependencies=Dependencies(transformers=None),
            memory=MemoryFacts(
                weight_bytes=self.served_bytes,
                served_weight_bytes=self.served_bytes,
                served_dtype="bfloat16",
                kv_bytes_per_token=self.kv_bytes_per_token,
            ),
            structure=uniform_structure(self.attention, self.embedding, self.moe, self.served_bytes, self._element()),
            verdict=Verdict(
                outcome="will_start",
                route=self.route,
                vllm_version="0.32.0",
                reason=f"{self.architecture} by route {self.route.value}",
                decisions=(),
            ),
            license=None,
            sources={},
            findings=(),
        )


def hub(name: str) -> ModelRef:
    """A Hub model."""
    return ModelRef(kind=ModelKind.HUB, location=name)


SMALL = Sketch(
    ref=hub("example/small-dense"),
    architecture="LlamaForCausalLM",
    model_type="llama",
    embedding=EmbeddingTraits(vocab_size=49152, hidden_size=576, tied=True),
    attention=AttentionTraits(kind="gqa", num_layers=30, num_attention_heads=9, num_key_value_heads=3, head_dim=64),
    mlp=MlpTraits(intermediate_size=1536, activation="silu", gated=True),
    parameters=134_515_008,
    served_bytes=269_030_016,
    kv_bytes_per_token=23_040,
)
GGUF = Sketch(
    ref=ModelRef(kind=ModelKind.GGUF_FILE, location="/models/small.Q4_1.gguf"),
    architecture="LlamaForCausalLM",
    model_type="llama",
    embedding=SMALL.embedding,
    attention=SMALL.attention,
    mlp=SMALL.mlp,
    parameters=134_515_008,
    served_bytes=269_030_016,
    kv_bytes_per_token=23_040,
    stored={"Q4_1": 106_000_000, "F32": 35_136},
    quantization=QuantizationTraits(method="gguf", bits=4, source="GGUF header: general.file_type"),
    kind="gguf",
)
SPARSE = Sketch(
    ref=hub("example/sparse-30b"),
    architecture="Qwen3MoeForCausalLM",
    model_type="qwen3_moe",
    max_model_len=40_960,
    embedding=EmbeddingTraits(vocab_size=151_936, hidden_size=2048, tied=False),
    attention=AttentionTraits(
        kind="gqa", num_layers=48, num_attention_heads=32, num_key_value_heads=4, head_dim=128, qk_norm=True
    ),
    mlp=MlpTraits(intermediate_size=6144, activation="silu", gated=True),
    moe=MoeTraits(num_experts=128, num_experts_per_tok=8, moe_intermediate_size=768),
    parameters=30_532_122_624,
    served_bytes=61_064_245_248,
    kv_bytes_per_token=98_304,
)
LATENT = Sketch(
    ref=hub("example/latent-671b"),
    architecture="DeepseekV3ForCausalLM",
    model_type="deepseek_v3",
    max_model_len=163_840,
    embedding=EmbeddingTraits(vocab_size=129_280, hidden_size=7168, tied=False),
    attention=AttentionTraits(
        kind="mla",
        num_layers=61,
        num_attention_heads=128,
        num_key_value_heads=128,
        head_dim=576,
        kv_lora_rank=512,
        qk_rope_head_dim=64,
    ),
    mlp=MlpTraits(intermediate_size=18_432, activation="silu", gated=True),
    moe=MoeTraits(
        num_experts=256,
        num_experts_per_tok=8,
        moe_intermediate_size=2048,
        num_shared_experts=1,
        num_dense_layers=3,
        scoring="sigmoid",
    ),
    parameters=671_026_419_200,
    served_bytes=673_150_000_000,
    kv_bytes_per_token=70_272,
    stored={"F8_E4M3": 669_000_000_000, "BF16": 2_026_419_200},
    quantization=QuantizationTraits(method="fp8", bits=8, source="config.json:quantization_config"),
)
GPTQ = Sketch(
    ref=hub("example/dense-7b-gptq"),
    architecture="Qwen2ForCausalLM",
    model_type="qwen2",
    max_model_len=32_768,
    embedding=EmbeddingTraits(vocab_size=152_064, hidden_size=3584, tied=False),
    attention=AttentionTraits(
        kind="gqa", num_layers=28, num_attention_heads=28, num_key_value_heads=4, head_dim=128, bias=True
    ),
    mlp=MlpTraits(intermediate_size=18_944, activation="silu", gated=True),
    parameters=7_615_616_512,
    served_bytes=5_580_000_000,
    kv_bytes_per_token=57_344,
    stored={"I32": 815_000_000, "F16": 1_140_000_000},
    quantization=QuantizationTraits(
        method="gptq", bits=4, group_size=128, symmetric=True, source="config.json:quantization_config"
    ),
)
HOSTILE = Sketch(
    ref=ModelRef(kind=ModelKind.FOLDER, location=f"/models/{HOSTILE_NAME}".replace("//", "/")),
    architecture="LlamaForCausalLM",
    model_type="llama",
    embedding=SMALL.embedding,
    attention=SMALL.attention,
    mlp=SMALL.mlp,
    parameters=134_515_008,
    served_bytes=269_030_016,
    kv_bytes_per_token=23_040,
    tokens=HOSTILE_TOKENS,
    stops=(),
    kind="unigram",
    route=Route.TRANSFORMERS,
)


def _case(name: str, sketch: Sketch, hardware: Hardware, strategy: Strategy, **wish: object) -> Case:
    request = {"strategy": strategy, "hardware": hardware, "workload": Workload(), "vllm_version": "0.32.0", **wish}
    return Case(name, sketch.profile(), PlanRequest.model_validate(request))


CASES = (
    _case("dense_on_cpu", SMALL, CPU, Strategy.BALANCED),
    _case("gguf_on_cpu", GGUF, CPU, Strategy.MAX_PERF, scheme="as_is"),
    _case("moe_on_h200", SPARSE, H200_8, Strategy.MAX_PERF, workload=Workload(concurrency=256)),
    _case("mla_on_h200", LATENT, H200_8, Strategy.MAX_PERF),
    _case("gptq_on_l4", GPTQ, L4, Strategy.BALANCED),
    _case("small_on_l4_min_mem", SMALL, L4, Strategy.MIN_MEM),
    _case(
        "hostile_names", HOSTILE, CPU, Strategy.MIN_MEM,
        served_name="it's \"me\" $(id) {{ x }} \U0001f600", engine_args={"max_num_seqs": 4},
    ),
)  # fmt: skip


def write_case(case: Case, folder: Path) -> None:
    """Write profile, plan and adapter of one case."""
    plan = make_plan(case.profile, case.request)
    with replace_folder(folder) as draft:
        write_tree(draft, {"profile.json": case.profile.to_json(), "plan.json": plan.to_json()})
        render_adapter(case.profile, plan, draft / "adapter")
