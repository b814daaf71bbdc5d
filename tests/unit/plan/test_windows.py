"""Sliding windows in the memory plan, against what vLLM printed for a model that has them."""

import pytest

from autoadapter.artifacts import ModelProfile, Scheme, Strategy, Workload
from autoadapter.artifacts.model_profile import AttentionTraits, EmbeddingTraits, MlpTraits
from autoadapter.plan import make_plan
from autoadapter.plan.legality import Layout
from autoadapter.plan.memory import Situation, budget, kv_pool, longest_request, pool_tokens
from autoadapter.plan.overhead import Batch
from autoadapter.plan.windows import KvCost, padding
from tests.unit.plan.sketches import CPU, GIB, gpu, llama_8b, profile, wish

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
    return model.model_copy(update={"memory": model.memory.model_copy(update={"kv_window_bytes_per_token": sliding})})


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
    here = situation(gemma4_31b(), batches_in_flight=1)
    assert pool_tokens(here, int(pool_gib * GIB), 262_144) == pytest.approx(printed, rel=0.001)


def test_the_second_batch_in_flight_costs_memory() -> None:
    one, two = (situation(gemma4_31b(), batches_in_flight=count) for count in (1, 2))
    assert two.kv_cost.held - one.kv_cost.held == 8192
    staged = situation(gemma4_31b(), layout=Layout(pipeline=2))
    assert staged.kv_cost.held - two.kv_cost.held == 8192


def test_short_requests_cost_every_layer() -> None:
    here = situation(gemma4_31b())
    assert here.request_bytes(1000) == 1000 * here.kv_bytes_per_token
    pool = 64 * GIB
    assert pool_tokens(here, pool, 1024) < pool_tokens(here, pool, 262_144) / 5


def test_the_account_names_requests_of_full_length() -> None:
    here = situation(gemma4_31b())
    memory = budget(here, Workload(), 262_144)
    requests = memory.kv_pool_bytes / here.request_bytes(262_144)
    assert memory.kv_tokens / 262_144 == pytest.approx(requests, rel=0.001)
    assert memory.max_concurrency == round(memory.kv_tokens / 262_144, 2)
    assert "sliding layers hold at most" in memory.provenance["kv_tokens"]


def test_a_context_fits_that_would_not_without_windows() -> None:
    windowed = gemma4_31b()
    whole = windowed.model_copy(update={"memory": windowed.memory.model_copy(update={"kv_window_bytes_per_token": 0})})
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


def test_chunked_layers_are_not_freed() -> None:
    attention = gemma4_31b().attention.model_copy(update={"layer_types": ("chunked_attention", "full_attention") * 30})
    here = situation(gemma4_31b().model_copy(update={"attention": attention}))
    assert here.kv_cost == KvCost(here.kv_bytes_per_token, 0, 0)


def test_the_longest_request_is_the_largest_that_the_pool_holds() -> None:
    here = situation(gemma4_31b())
    for pool in (GIB, 8 * GIB, 17 * GIB, 64 * GIB):
        longest = longest_request(here, pool)
        assert here.request_bytes(longest) <= pool < here.request_bytes(longest + 2 * here.block)


def test_where_all_layers_slide_there_is_no_longest_request() -> None:
    attention = gemma4_31b().attention.model_copy(update={"layer_types": (), "num_sliding_layers": 60})
    memory = gemma4_31b().memory
    memory = memory.model_copy(update={"kv_window_bytes_per_token": memory.kv_bytes_per_token})
    here = situation(gemma4_31b().model_copy(update={"attention": attention, "memory": memory}))
    held = here.request_bytes(10**6)
    assert longest_request(here, held) == 262_144
    assert longest_request(here, held // 2) < here.kv_cost.held


@pytest.mark.parametrize(
    ("whole", "sliding", "expected"),
    [(10, 50, (1, 1)), (10, 52, (1, 60 / 52)), (12, 13, (13 / 12, 1)), (0, 4, (1, 1)), (4, 0, (1, 1))],
)
def test_groups_are_padded_as_vllm_pads_them(whole: int, sliding: int, expected: tuple[float, float]) -> None:
    kinds = ("full_attention",) * whole + ("sliding_attention",) * sliding
    attention = llama_8b().attention.model_copy(update={"layer_types": kinds})
    assert padding(llama_8b().model_copy(update={"attention": attention})) == pytest.approx(expected)


def test_a_cpu_pool_counts_windows_too() -> None:
    machine = CPU.model_copy(update={"memory_bytes": 512 * GIB})
    here = situation(gemma4_31b(), hardware=machine, batch=Batch(1, 2048, graphs=False))
    held = (1024 - 1 + 2 * 2048) // 128 * 128 + 2 * 128
    needed = (262_144 + 128) * 10 * 8192 + held * 50 * 16_384
    assert kv_pool(here, Workload(concurrency=1), 262_144) == -(-needed // GIB) * GIB == 25 * GIB


def test_the_strategy_counts_requests_of_the_workload() -> None:
    """64 requests of 1,280 tokens cost every layer: they do not fit beside the weights, though as many tokens would."""
    work = Workload(concurrency=64)
    plan = make_plan(gemma4_31b(), wish(gpu("h200"), Strategy.BALANCED, scheme="as_is", workload=work))
    assert plan.memory.kv_tokens > 64 * 1280
    assert "plan.few-requests" in [finding.code for finding in plan.findings]
