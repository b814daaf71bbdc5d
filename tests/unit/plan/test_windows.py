"""Sliding windows in the memory plan, against what vLLM printed for a model that has them."""

import pytest

from autoadapter.artifacts import ModelProfile, ModelStructure, Scheme, Strategy, Workload
from autoadapter.artifacts.model_profile import AttentionTraits, EmbeddingTraits, MlpTraits
from autoadapter.errors import UnsupportedModelError
from autoadapter.plan import make_plan
from autoadapter.plan.kv import kv_layout
from autoadapter.plan.layout import evaluate, legal_layouts
from autoadapter.plan.legality import Layout
from autoadapter.plan.memory import CacheFlags, Situation, budget, kv_pool, longest_request, pool_tokens
from autoadapter.plan.overhead import Batch
from autoadapter.plan.request import user_flags
from tests.unit.plan.kv_models import MODELS, alike, chunked, full, sliding, stack
from tests.unit.plan.sketches import CPU, GIB, gpu, profile, wish

AS_IS = Scheme(name="as_is", backend=None, why="", source="")


def gemma4_31b(*, served_bytes: int = 62_500_000_000) -> ModelProfile:
    """Fifty layers that slide over 1024 tokens with 16 heads of 256, and ten that do not with 4 heads of 512."""
    sliding, whole = 50 * 16 * 2 * 256 * 2, 10 * 4 * 2 * 512 * 2
    model = profile(
        name="example/gemma-31b",
        parameters=31_000_000_000,
        embedding=EmbeddingTraits(vocab_size=262_144, hidden_size=5376, tied=True),
        attention=AttentionTraits(
            kind="gqa",
            num_layers=60,
            num_attention_heads=32,
            num_key_value_heads=16,
            head_dim=256,
            sliding_window=1024,
            num_sliding_layers=50,
            layer_types=(*("sliding_attention",) * 5, "full_attention") * 10,
        ),
        mlp=MlpTraits(intermediate_size=21_504, activation="gelu_pytorch_tanh", gated=True),
        kv_bytes_per_token=sliding + whole,
        served_bytes=served_bytes,
        max_model_len=262_144,
        architecture="Gemma4ForCausalLM",
        model_type="gemma4",
    )
    return keeping(model, MODELS["gemma-4-31b"])


def keeping(model: ModelProfile, kept: ModelStructure) -> ModelProfile:
    """The model with the caches of another structure of as many layers, and its own weights."""
    weights = model.structure.groups[0].weights
    groups = tuple(group.model_copy(update={"weights": weights}) for group in kept.groups)
    return model.model_copy(update={"structure": model.structure.model_copy(update={"groups": groups})})


def situation(model: ModelProfile, **changes: object) -> Situation:
    given = {
        "profile": model,
        "hardware": gpu("h200"),
        "scheme": AS_IS,
        "layout": Layout(),
        "batch": Batch(max_num_seqs=1024, max_num_batched_tokens=8192, graphs=True),
        "utilization": 0.92,
        "kv_dtype": "auto",
    }
    return Situation(**{**given, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(("pool_gib", "printed"), [(64.68, 626_949), (103.92, 1_007_303)])
def test_tokens_are_what_vllm_printed(pool_gib: float, printed: int) -> None:
    """Public reports: gemma-4-31B on an H200, context of 262,144, vLLM 0.24, which has one batch in flight."""
    here = situation(gemma4_31b(), vllm_version="0.24.0")
    assert pool_tokens(here, int(pool_gib * GIB), 262_144) == pytest.approx(printed, rel=3e-5)


def test_further_batches_in_flight_cost_memory() -> None:
    """8,192 tokens are 512 blocks in each of the five groups that slide."""
    older, newer = (situation(gemma4_31b(), vllm_version=version) for version in ("0.25.1", "0.26.0"))
    assert newer.kv.blocks_for(262_144) - older.kv.blocks_for(262_144) == 5 * 512
    staged = situation(gemma4_31b(), layout=Layout(pipeline=2), vllm_version="0.32.0")
    assert staged.kv.blocks_for(262_144) - newer.kv.blocks_for(262_144) == 5 * 512


def test_short_requests_cost_every_layer() -> None:
    here = situation(gemma4_31b())
    assert here.kv_bytes_per_token == 50 * 16_384 + 10 * 8192
    assert 1.0 <= here.request_bytes(1024) / (1024 * here.kv_bytes_per_token) < 1.02
    pool = 64 * GIB
    assert pool_tokens(here, pool, 1024) < pool_tokens(here, pool, 262_144) / 5


def test_the_account_names_requests_of_full_length() -> None:
    here = situation(gemma4_31b())
    memory = budget(here, Workload(), 262_144)
    requests = memory.kv_pool_bytes / here.request_bytes(262_144)
    assert memory.kv_tokens / 262_144 == pytest.approx(requests, rel=0.001)
    assert memory.max_concurrency == round(memory.kv_tokens / 262_144, 2)
    assert "6 groups of layers" in memory.provenance["kv_tokens"]


def test_a_context_fits_that_would_not_without_windows() -> None:
    windowed = gemma4_31b()
    whole = keeping(windowed, alike(60, full(16, 256)))
    lengths = [
        make_plan(model, wish(gpu("h200"), scheme="as_is")).setting("max-model-len") for model in (windowed, whole)
    ]
    assert lengths[0] == 262_144
    assert isinstance(lengths[1], int)
    assert lengths[1] < 100_000


def test_without_the_hybrid_manager_every_layer_holds_everything() -> None:
    off = wish(gpu("h200"), scheme="as_is", engine_args={"disable-hybrid-kv-cache-manager": True})
    length = make_plan(gemma4_31b(), off).setting("max-model-len")
    assert isinstance(length, int)
    assert length < 100_000


def test_chunks_are_freed_with_the_hybrid_manager_alone() -> None:
    model = keeping(gemma4_31b(), stack((1, [chunked(8, 128, 8192)], ()), (1, [full(8, 128)], ()), repeats=30))
    freed, held = (situation(model, cache=CacheFlags(hybrid_manager=hybrid)) for hybrid in (True, False))
    assert held.request_bytes(262_144) == 262_144 * held.kv_bytes_per_token
    in_flight = 8192 + 2 * 8192
    assert freed.request_bytes(262_144) == (262_144 + in_flight) * held.kv_bytes_per_token // 2


def test_the_longest_request_is_the_largest_that_the_pool_holds() -> None:
    here = situation(gemma4_31b())
    for pool in (GIB, 8 * GIB, 17 * GIB, 64 * GIB):
        longest = longest_request(here, pool)
        assert here.kv.needed_bytes(longest) <= pool < here.kv.needed_bytes(longest + 1)


def test_where_all_layers_slide_there_is_no_longest_request() -> None:
    here = situation(keeping(gemma4_31b(), alike(60, sliding(16, 256, 1024))))
    held = here.kv.needed_bytes(10**6)
    assert longest_request(here, held) == 262_144
    assert longest_request(here, held // 2) < 1023 + 2 * 8192


@pytest.mark.parametrize(
    ("whole", "windows", "sizes"),
    [(10, 50, [10] * 6), (10, 52, [10, 8, 9, 9, 9, 9, 8]), (12, 13, [12, 13]), (0, 4, [4]), (4, 0, [4])],
)
def test_groups_are_as_vllm_makes_them(whole: int, windows: int, sizes: list[int]) -> None:
    kinds = stack((whole, [full(8, 128)], ()), (windows, [sliding(8, 128, 1024)], ()))
    groups = kv_layout(kinds, situation(gemma4_31b()).question).groups
    assert sorted(len(group.members) for group in groups) == sorted(sizes)


def test_a_cpu_pool_counts_windows_too() -> None:
    """One request: the blocks of the layers that keep all, five groups of the window and two batches; a null block."""
    machine = CPU.model_copy(update={"memory_bytes": 512 * GIB})
    here = situation(gemma4_31b(), hardware=machine, batch=Batch(1, 2048, graphs=False))
    window = -(-(1024 - 1 + 2 * 2048) // 128) + 1
    needed = (262_144 // 256 + 5 * window + 1) * 10 * 128 * 16_384
    assert kv_pool(here, Workload(concurrency=1), 262_144) == -(-needed // GIB) * GIB == 25 * GIB


def test_the_strategy_counts_requests_of_the_workload() -> None:
    """64 requests of 1,280 tokens cost every layer: they do not fit beside the weights, though as many tokens would."""
    work = Workload(concurrency=64)
    plan = make_plan(gemma4_31b(), wish(gpu("h200"), Strategy.BALANCED, scheme="as_is", workload=work))
    assert plan.memory.kv_tokens > 64 * 1280
    assert "plan.few-requests" in [finding.code for finding in plan.findings]


def test_what_vllm_refuses_is_said_so() -> None:
    """Windows of two sizes cannot be held in one group, which is all that there is without the hybrid manager."""
    kinds = [(20, [sliding(16, 256, size)], ()) for size in (512, 1024)]
    model = keeping(gemma4_31b(), stack(*kinds, (20, [full(16, 256)], ())))
    off = wish(gpu("h200"), scheme="as_is", engine_args={"disable-hybrid-kv-cache-manager": True})
    with pytest.raises(UnsupportedModelError, match="windows of several sizes") as refused:
        make_plan(model, off)
    assert "--disable-hybrid-kv-cache-manager" in str(refused.value.hint)
    assert make_plan(model, wish(gpu("h200"), scheme="as_is")).setting("max-model-len")


@pytest.mark.parametrize(("config", "tokens"), [('{"num_speculative_tokens": 3}', 3), ("[]", 0), ("{", 0), ("{}", 0)])
def test_speculation_reaches_the_account(config: str, tokens: int) -> None:
    asked = wish(gpu("h200"), scheme="as_is", engine_args={"speculative-config": config})
    model = keeping(gemma4_31b(), MODELS["qwen3.5-27b"])
    (layout,) = legal_layouts(model, asked.hardware, user_flags(asked))[0]
    found = evaluate(model, asked, user_flags(asked), layout, AS_IS)
    assert found is not None
    assert found.situation.question.speculative_tokens == tokens
    assert found.situation.kv.blocks_for(1) == 1 + 3 * (2 + tokens)


def test_where_the_account_is_not_exact_the_plan_says_so() -> None:
    odd = wish(gpu("h200"), scheme="as_is", engine_args={"kv-cache-dtype": "turboquant_k8v4"})
    assert "plan.cache-estimate" in [finding.code for finding in make_plan(gemma4_31b(), odd).findings]
    plain = make_plan(gemma4_31b(), wish(gpu("h200"), scheme="as_is"))
    assert "plan.cache-estimate" not in [finding.code for finding in plain.findings]
