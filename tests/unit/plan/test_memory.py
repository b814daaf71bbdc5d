"""The memory plan against numbers that vLLM printed: public start-up logs (vLLM 0.19, H100) and the sample on a CPU."""

import pytest

from autoadapter.artifacts import ModelProfile, Scheme, StateEntry, Workload
from autoadapter.plan.legality import Layout
from autoadapter.plan.memory import CacheFlags, Situation, budget, kv_pool, longest_request, pool_tokens
from autoadapter.plan.overhead import Batch
from autoadapter.plan.weights import is_estimated, unreliable_estimate, weight_bytes
from tests.unit.plan.sketches import (
    CPU,
    GIB,
    gpu,
    llama_8b,
    llama_70b,
    mla_16b,
    qwen3_30b,
    smollm2,
)

AS_IS = Scheme(name="as_is", backend=None, why="", source="")
LOG_BATCH = Batch(max_num_seqs=1024, max_num_batched_tokens=8192, graphs=True)


def scheme(name: str, **options: int) -> Scheme:
    return Scheme(name=name, backend="llmcompressor", options=dict(options), why="", source="")


def situation(profile: ModelProfile, layout: Layout | None = None, **changes: object) -> Situation:
    given = {
        "profile": profile,
        "hardware": gpu("h100"),
        "scheme": AS_IS,
        "layout": layout or Layout(),
        "batch": LOG_BATCH,
        "utilization": 0.92,
        "kv_dtype": "auto",
    }
    return Situation(**{**given, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "stored", "printed_gib"),
    [
        (llama_8b(), AS_IS, 14.99),
        (llama_8b(), scheme("fp8_dynamic"), 8.49),
        (llama_8b(), scheme("w4a16_gptq", group_size=128), 5.38),
        (qwen3_30b(), AS_IS, 56.88),
        (mla_16b(), AS_IS, 29.43),
    ],
)
def test_weights_are_what_vllm_loads(model: ModelProfile, stored: Scheme, printed_gib: float) -> None:
    assert weight_bytes(model, stored, Layout()) / GIB == pytest.approx(printed_gib, rel=0.015)


def test_a_size_from_the_config_alone_is_called_an_estimate() -> None:
    structure = llama_8b().structure.model_copy(update={"from_headers": False})
    assert is_estimated(llama_8b().model_copy(update={"structure": structure}))
    assert not is_estimated(llama_8b())


def test_a_model_without_a_stated_mlp_is_not_trusted() -> None:
    assert unreliable_estimate(llama_70b()) is None
    missing = unreliable_estimate(llama_70b().model_copy(update={"mlp": None}))
    assert missing is not None
    assert "does not state the width of its MLP" in missing


@pytest.mark.parametrize(
    ("model", "pool_gib", "printed_tokens"),
    [(mla_16b(), 43.61, 1_505_552), (llama_8b(), 58.11, 476_064)],
)
def test_tokens_follow_from_the_pool(model: ModelProfile, pool_gib: float, printed_tokens: int) -> None:
    assert longest_request(situation(model), int(pool_gib * GIB)) == pytest.approx(printed_tokens, rel=0.001)


def test_the_latent_of_mla_is_not_split() -> None:
    alone, split = situation(mla_16b()), situation(mla_16b(), Layout(tensor=8))
    assert alone.kv_bytes_per_token == split.kv_bytes_per_token == 27 * 576 * 2


def test_repeated_kv_projections_are_counted() -> None:
    eight, sixteen = (weight_bytes(llama_8b(), AS_IS, Layout(tensor=size)) for size in (8, 16))
    projections = 32 * 4096 * 2 * 8 * 128 * 2
    without_repeat = eight / 2
    assert sixteen - without_repeat == pytest.approx(projections * (1 / 8 - 1 / 16), rel=0.03)


def test_experts_are_dealt_out_over_replicas_and_attention_is_not() -> None:
    whole = weight_bytes(qwen3_30b(), AS_IS, Layout())
    dealt = weight_bytes(qwen3_30b(), AS_IS, Layout(data=8, expert_parallel=True))
    experts = 48 * 128 * 3 * 2048 * 768 * 2
    assert dealt == pytest.approx(whole - experts * 7 / 8, rel=0.01)


def test_pipeline_stages_hold_their_layers() -> None:
    half = weight_bytes(llama_8b(), AS_IS, Layout(pipeline=2))
    tables = 2 * 128_256 * 4096 * 2
    assert half == pytest.approx(8_030_261_248, rel=0.001), f"one table of {tables // 2} in each stage"
    assert situation(llama_8b(), Layout(pipeline=2)).kv_bytes_per_token == 65_536


def test_fp8_kv_halves_the_token() -> None:
    assert situation(llama_8b(), kv_dtype="fp8").kv_bytes_per_token == 65_536


def test_cpu_pool_is_what_vllm_printed_for_the_sample() -> None:
    """What vLLM 0.32 printed on a CPU with 1 GiB: 46,592 tokens, 5.69 requests of 8,192."""
    batch = Batch(max_num_seqs=32, max_num_batched_tokens=2048, graphs=False)
    planned = budget(situation(smollm2(), hardware=CPU, batch=batch, utilization=0.9), Workload(), 8192)
    assert (planned.kv_pool_bytes, planned.kv_tokens, planned.max_concurrency) == (GIB, 46_592, 5.69)


def test_cpu_pool_grows_with_the_workload_up_to_its_cap() -> None:
    batch = Batch(max_num_seqs=32, max_num_batched_tokens=2048, graphs=False)
    here = situation(llama_8b(), hardware=CPU.model_copy(update={"memory_bytes": 64 * GIB}), batch=batch)
    one, many = (kv_pool(here, Workload(concurrency=count), 8192) for count in (1, 10_000))
    assert one == 2 * GIB
    assert many == 16 * GIB


def test_recurrent_state_is_taken_per_request() -> None:
    """With states as large as the tokens of a request half as many requests fit; prefix caching keeps two of each."""
    plain, size = llama_8b(), 8192 * 4096
    layers = plain.structure.groups[0]
    states = (StateEntry(name="ssm", elements=size // 2, dtype="bfloat16"),)
    recurrent = layers.model_copy(update={"layers": tuple(range(32, 64)), "caches": (), "states": states})
    both = plain.model_copy(update={"structure": plain.structure.model_copy(update={"groups": (layers, recurrent)})})
    alone, once, twice = (
        pool_tokens(situation(model, cache=CacheFlags(prefix_caching=caching)), 60 * GIB, 8192)
        for model, caching in ((plain, True), (both, False), (both, True))
    )
    assert once == pytest.approx(alone / 2, rel=0.001)
    assert twice == pytest.approx(alone / 3, rel=0.001)
    first = recurrent.model_copy(update={"layers": layers.layers})
    only = plain.model_copy(update={"structure": plain.structure.model_copy(update={"groups": (first,)})})
    assert pool_tokens(situation(only), 60 * GIB, 8192) == 60 * 8192
    assert longest_request(situation(only), 60 * GIB) == only.max_model_len


def test_no_room_is_no_pool() -> None:
    tiny = situation(llama_8b(), hardware=gpu("t4"))
    assert tiny.room < 0
    assert kv_pool(tiny, Workload(), 8192) == 0
    assert longest_request(tiny, 0) == 0
