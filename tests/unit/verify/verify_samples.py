"""A small model's artifacts, written by hand: what the earlier stages would have handed over."""

from pathlib import Path

from uniform_structure import uniform_structure

from autoadapter.artifacts import (
    Depth,
    EngineSetting,
    Hardware,
    MemoryBudget,
    ModelKind,
    ModelProfile,
    ModelRef,
    OptimizedModel,
    Parallelism,
    Route,
    Scheme,
    ServingPlan,
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
    SpecialToken,
    TensorCensus,
    TokenizerTraits,
)
from autoadapter.artifacts.serving_plan import Belief, SettingValue
from autoadapter.engine import EngineTarget
from autoadapter.verify import VerifyRequest

ATTENTION = AttentionTraits(kind="gqa", num_layers=30, num_attention_heads=9, num_key_value_heads=3, head_dim=64)
EMBEDDING = EmbeddingTraits(vocab_size=49152, hidden_size=576, tied=True)

ADAPTER = '''"""A tokenizer adapter as `generate` renders it, reduced to what the check uses."""

import json
from pathlib import Path

import jinja2.sandbox
from tokenizers import Tokenizer


class TokenizerAdapter:
    def __init__(self, tokenizer, template, specials):
        self.tokenizer, self.template, self.specials = tokenizer, template, specials

    @classmethod
    def from_folder(cls, folder):
        folder = Path(folder)
        config = json.loads((folder / "tokenizer_config.json").read_text())
        template = folder / "chat_template.jinja"
        specials = {k: v for k, v in config.items() if k.endswith("_token") and isinstance(v, str)}
        text = template.read_text() if template.exists() else ""
        return cls(Tokenizer.from_file(str(folder / "tokenizer.json")), text, specials)

    def encode(self, text, add_special_tokens=True):
        return self.tokenizer.encode(text, add_special_tokens=add_special_tokens).ids

    def decode(self, ids, skip_special_tokens=False):
        return self.tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)

    def render_chat(self, messages, add_generation_prompt=True):
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        template = environment.from_string(self.template)
        return template.render(messages=messages, add_generation_prompt=add_generation_prompt, **self.specials)
'''

CONFIG = """\
served-model-name: [sample]
dtype: bfloat16
max-model-len: 2048
max-num-seqs: 8
max-num-batched-tokens: 512
enforce-eager: true
"""
ENV = "VLLM_CPU_KVCACHE_SPACE=1\nVLLM_CPU_OMP_THREADS_BIND=nobind\n"
KV_BYTES_PER_TOKEN = 30 * 3 * 64 * 2 * 2


def profile(name: str = "sample") -> ModelProfile:
    """SmolLM2-135M-Instruct as `analyze` sees it."""
    return ModelProfile(
        tool_version="0",
        ref=ModelRef(kind=ModelKind.FOLDER, location=f"/models/{name}"),
        architecture="LlamaForCausalLM",
        model_type="llama",
        max_model_len=8192,
        tensors=TensorCensus(
            format="safetensors", files=(), tensors=272, parameters=134515008, bytes=269030016,
            parameters_by_dtype={"BF16": 134515008},
        ),
        embedding=EMBEDDING,
        attention=ATTENTION,
        mlp=MlpTraits(intermediate_size=1536, activation="silu", gated=True),
        moe=None, rope=None, state=None,
        tokenizer=TokenizerTraits(
            kind="bpe-byte-level", files=("tokenizer.json",), vocab_size=49152,
            special_tokens=(SpecialToken(role="eos", text="<|im_end|>", id=2),), stop_token_ids=(2,),
            has_chat_template=True,
        ),
        quantization=None, remote_code=None, dependencies=Dependencies(transformers="5.19.0"),
        memory=MemoryFacts(
            weight_bytes=269030016, served_weight_bytes=269030016, served_dtype="bfloat16",
            kv_bytes_per_token=KV_BYTES_PER_TOKEN,
        ),
        structure=uniform_structure(ATTENTION, EMBEDDING, None, 269030016),
        verdict=Verdict(
            outcome="will_start", route=Route.NATIVE, vllm_version="0.32.0", reason="in the registry", decisions=()
        ),
        license=None, sources={}, findings=(),
    )  # fmt: skip


def plan(scheme: str = "int8_w8a8", name: str = "sample", hardware: Hardware | None = None) -> ServingPlan:
    """A plan for this CPU."""
    options: dict[str, SettingValue] = {"dtype": "bfloat16", "max-model-len": 2048, "max-num-seqs": 8}
    options["max-num-batched-tokens"] = 512
    settings = [
        EngineSetting(flag=flag, value=value, why="test", source="test", belief=Belief.COMPUTED)
        for flag, value in options.items()
    ]
    return ServingPlan(
        tool_version="0",
        model=ModelRef(kind=ModelKind.FOLDER, location=f"/models/{name}"),
        profile_digest="0" * 64,
        route=Route.NATIVE,
        strategy=Strategy.BALANCED,
        hardware=hardware or Hardware(name="cpu", kind="cpu", count=1, memory_bytes=24 * 2**30, source="test"),
        workload=Workload(),
        vllm_version="0.32.0",
        served_name="sample",
        scheme=Scheme(
            name=scheme, backend=None if scheme == "as_is" else "llmcompressor", why="test", source="test"
        ),
        parallelism=Parallelism(),
        settings=tuple(settings),
        env=(),
        memory=MemoryBudget(
            device_bytes=24 * 2**30, weight_bytes=269030016, overhead_bytes=2**30, kv_pool_bytes=2**30,
            kv_bytes_per_token=KV_BYTES_PER_TOKEN, kv_tokens=2**30 // KV_BYTES_PER_TOKEN, max_concurrency=22.7,
            provenance={},
        ),
        rejected=(), findings=(),
    )  # fmt: skip


def optimized(reference: Path, served: Path, scheme: str = "int8_w8a8") -> OptimizedModel:
    """A record of a quantized checkpoint."""
    return OptimizedModel(
        tool_version="0",
        plan_digest="0" * 64,
        scheme=Scheme(name=scheme, backend=None, why="test", source="test"),
        model_path=str(served),
        reference_path=str(reference),
        bytes_before=2,
        bytes_after=1,
        files=(),
        steps=(),
        quality=None,
        findings=(),
    )


def write_adapter(folder: Path, adapter: str = ADAPTER) -> Path:
    """The folder that `generate` would have rendered."""
    for name, text in (
        ("vllm/config.yaml", CONFIG),
        ("vllm/env", ENV),
        ("tokenizer/tokenizer_adapter.py", adapter),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def request(folder: Path, reference: Path, served: Path, engine: EngineTarget, **changes: object) -> VerifyRequest:
    """A request for a smoke run in `folder`."""
    scheme = "as_is" if reference == served else "int8_w8a8"
    fields: dict[str, object] = {
        "profile": profile(),
        "plan": plan(scheme),
        "optimized": optimized(reference, served, scheme),
        "adapter": write_adapter(folder / "adapter"),
        "engine": engine,
        "depth": Depth.SMOKE,
        "folder": folder,
        "logs": folder / "logs",
        **changes,
    }
    return VerifyRequest(**fields)  # type: ignore[arg-type]
