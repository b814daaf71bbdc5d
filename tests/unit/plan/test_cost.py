"""The floor of a step: totals against what is known of the models, and bounds against arithmetic by hand."""

import pytest
from hand_operators import (
    attention_operators,
    expert_operators,
    latent_operators,
    mlp_operators,
    with_operators,
)

from autoadapter.artifacts import CostProfile, ModelProfile, OperatorCost
from autoadapter.artifacts.model_profile import (
    AttentionTraits,
    EmbeddingTraits,
    MlpTraits,
    MoeTraits,
    QuantizationTraits,
)
from autoadapter.artifacts.model_structure import CacheEntry, StateEntry
from autoadapter.plan.cost import WorkPoint, active_parameters, cost_profile, expected_experts
from autoadapter.plan.legality import Layout
from tests.unit.plan.sketches import CPU, gpu, llama_8b, profile, qwen3_8b, qwen3_30b

H100_BYTES, H100_FLOPS = 3350e9, 989e12


def dense(model: ModelProfile) -> ModelProfile:
    assert model.mlp is not None
    mlp = mlp_operators(model.embedding.hidden_size, model.mlp.intermediate_size)
    return with_operators(model, [*attention_operators(model), *mlp])


def sparse() -> ModelProfile:
    model = qwen3_30b()
    return with_operators(model, [*attention_operators(model), *expert_operators(2048, 768, 128, 8)])


def deepseek_v3() -> ModelProfile:
    attention = AttentionTraits(
        kind="mla", num_layers=61, num_attention_heads=128, num_key_value_heads=128, head_dim=576, kv_lora_rank=512,
        qk_rope_head_dim=64,
    )  # fmt: skip
    model = profile(
        name="example/deepseek-v3",
        parameters=671_026_419_200,
        embedding=EmbeddingTraits(vocab_size=129_280, hidden_size=7168, tied=False),
        attention=attention,
        mlp=MlpTraits(intermediate_size=18_432, activation="silu", gated=True),
        moe=MoeTraits(
            num_experts=256, num_experts_per_tok=8, moe_intermediate_size=2048, num_shared_experts=1, num_dense_layers=3
        ),
        kv_bytes_per_token=61 * 576 * 2,
    )
    first = [*latent_operators(7168, 128), *mlp_operators(7168, 18_432)]
    shared = mlp_operators(7168, 2048, "shared_experts.")
    return with_operators(model, first, [*latent_operators(7168, 128), *expert_operators(7168, 2048, 256, 8), *shared])


def costs(model: ModelProfile, name: str = "h100", layout: Layout | None = None, **point: int) -> CostProfile:
    found = cost_profile(model, gpu(name, 8), layout or Layout(), WorkPoint(**point))
    assert found is not None
    return found


def of(cost: CostProfile, phase: str) -> dict[str, OperatorCost]:
    return {operator.name: operator for operator in cost.operators if operator.phase == phase}


def linear_flops(cost: CostProfile, phase: str) -> float:
    return sum(entry.flops for name, entry in of(cost, phase).items() if name != "attention")


@pytest.mark.parametrize("model", [llama_8b(), qwen3_8b()], ids=["llama", "qwen"])
def test_dense_totals_are_two_per_parameter_and_token(model: ModelProfile) -> None:
    table = model.embedding.vocab_size * model.embedding.hidden_size
    cost = costs(dense(model), prefill_tokens=1000, decode_batch=7)
    layers = model.tensors.parameters - 2 * table
    assert linear_flops(cost, "decode") == pytest.approx(2 * 7 * (layers + table), rel=0.03)
    assert linear_flops(cost, "prefill") == pytest.approx(2 * (1000 * layers + table), rel=0.03)


@pytest.mark.parametrize(
    ("model", "billions"),
    [(deepseek_v3(), 37.0), (sparse(), 3.3), (dense(llama_8b()), 8.03), (dense(qwen3_8b()), 8.19)],
    ids=["deepseek-v3", "qwen3-30b-a3b", "llama-8b", "qwen3-8b"],
)
def test_active_parameters(model: ModelProfile, billions: float) -> None:
    assert (active_parameters(model) or 0) / 1e9 == pytest.approx(billions, rel=0.03)


def test_decode_of_one_request_reads_every_weight_once() -> None:
    """Llama-3.1-8B on H100: 15.0 GB of weights without the embedding, 4.48 ms; the KV of 4096 tokens adds 0.16 ms."""
    cost = costs(dense(llama_8b()), decode_batch=1, context=4096)
    weights = 2 * (8_030_261_248 - 128_256 * 4096)
    floor = sum(entry.seconds for entry in of(cost, "decode").values())
    assert floor == pytest.approx((weights + 4096 * 131_072) / H100_BYTES, rel=0.001)
    assert all(entry.bound == "memory" for entry in of(cost, "decode").values())
    assert "floor" in cost.source


def test_prefill_is_bound_by_compute_and_the_ridge_tells_where_that_begins() -> None:
    cost = costs(dense(llama_8b()), prefill_tokens=4096)
    down = of(cost, "prefill")["down_proj"]
    assert down.bound == "compute"
    assert down.seconds == pytest.approx(32 * 2 * 4096 * 4096 * 14_336 / H100_FLOPS)
    assert cost.ridge == pytest.approx(H100_FLOPS / H100_BYTES)
    for tokens, bound in ((290, "memory"), (300, "compute")):
        assert of(costs(dense(llama_8b()), prefill_tokens=tokens), "prefill")["q_proj"].bound == bound


def test_causal_attention_is_half_of_the_square() -> None:
    flops = of(costs(dense(llama_8b()), prefill_tokens=1024), "prefill")["attention"].flops
    assert flops == 32 * 2 * (1024 * 1025 / 2) * 32 * 256


@pytest.mark.parametrize(("kind", "pairs"), [("sliding_attention", 5050 + 900 * 100), ("chunked_attention", 10 * 5050)])
def test_windows_cap_attention(kind: str, pairs: int) -> None:
    model = dense(llama_8b())
    cache = CacheEntry.model_validate({"kind": kind, "kv_heads": 8, "key_dim": 128, "value_dim": 128, "window": 100})
    group = model.structure.groups[0].model_copy(update={"caches": (cache,)})
    model = model.model_copy(update={"structure": model.structure.model_copy(update={"groups": (group,)})})
    cost = costs(model, prefill_tokens=1000, decode_batch=2, context=5000)
    assert of(cost, "prefill")["attention"].flops == 32 * 2 * pairs * 32 * 256
    assert of(cost, "decode")["attention"].bytes == 32 * 2 * 100 * 8 * 256 * 2


def test_tensor_parallelism_divides_work_and_repeats_key_value_heads() -> None:
    one, sixteen = costs(dense(llama_8b())), costs(dense(llama_8b()), layout=Layout(tensor=16))
    assert of(sixteen, "decode")["q_proj"].bytes == of(one, "decode")["q_proj"].bytes / 16
    assert of(sixteen, "decode")["k_proj"].bytes == of(one, "decode")["k_proj"].bytes / 8
    assert of(sixteen, "decode")["attention"].bytes == of(one, "decode")["attention"].bytes / 8
    assert of(sixteen, "decode")["lm_head"].bytes == of(one, "decode")["lm_head"].bytes / 16


def test_the_latent_is_read_whole_by_every_rank() -> None:
    one, eight = costs(deepseek_v3()), costs(deepseek_v3(), layout=Layout(tensor=8, expert_parallel=True))
    assert of(eight, "decode")["attention"].bytes == of(one, "decode")["attention"].bytes == 61 * 4096 * 576 * 2
    assert of(eight, "decode")["attention"].flops == of(one, "decode")["attention"].flops / 8


def test_a_step_reads_the_experts_that_its_tokens_use() -> None:
    assert expected_experts(128, 8, 1) == pytest.approx(8)
    assert expected_experts(128, 8, 32) == pytest.approx(128 * (1 - (1 - 1 / 16) ** 32))
    assert expected_experts(8, 8, 3) == 8
    whole = 48 * 128 * 2 * 2048 * 768
    one, many = costs(sparse(), decode_batch=1), costs(sparse(), decode_batch=512)
    assert of(one, "decode")["experts.down_proj"].bytes == pytest.approx(whole / 16)
    assert of(many, "decode")["experts.down_proj"].bytes == pytest.approx(whole, rel=1e-6)


def test_data_parallel_ranks_share_the_experts_and_not_the_attention() -> None:
    spread = costs(sparse(), layout=Layout(data=8, expert_parallel=True), decode_batch=64)
    alone = costs(sparse(), decode_batch=64)
    assert of(spread, "decode")["q_proj"].bytes == of(alone, "decode")["q_proj"].bytes
    assert of(spread, "decode")["experts.up_proj"].flops == of(alone, "decode")["experts.up_proj"].flops
    assert of(spread, "decode")["experts.up_proj"].bytes < of(alone, "decode")["experts.up_proj"].bytes / 7


def test_recurrent_state_is_read_and_written_whatever_the_context() -> None:
    model = dense(llama_8b())
    state = StateEntry(name="ssm", elements=1_000_000, dtype="float32")
    group = model.structure.groups[0].model_copy(update={"states": (state,), "caches": ()})
    model = model.model_copy(update={"structure": model.structure.model_copy(update={"groups": (group,)})})
    short, long = (of(costs(model, decode_batch=3, context=size), "decode")["state"] for size in (10, 100_000))
    assert short.bytes == long.bytes == 32 * 3 * 2 * 4_000_000
    assert "attention" not in of(costs(model), "decode")


@pytest.mark.parametrize(
    ("name", "rate"), [("h100", 1979e12), ("a100", 312e12), ("l4", 242e12)], ids=["hopper", "ampere", "ada"]
)
def test_fp8_computes_in_fp8_only_where_the_kernel_does(name: str, rate: float) -> None:
    assert prefill_rate("fp8", 8, None, name) == pytest.approx(rate)


@pytest.mark.parametrize(("name", "rate"), [("h100", 989e12), ("b200", 9000e12)])
def test_nvfp4_on_hopper_computes_in_sixteen_bits(name: str, rate: float) -> None:
    assert prefill_rate("modelopt_fp4", 4, 16, name) == pytest.approx(rate)


def test_weight_only_schemes_compute_in_sixteen_bits() -> None:
    assert prefill_rate("gptq", 4, 128, "b200") == pytest.approx(2250e12)


def prefill_rate(method: str, bits: int, group: int | None, name: str) -> float:
    """FLOP/s of a quantized matrix in a long prefill."""
    model = dense(llama_8b())
    groups = tuple(
        group_.model_copy(update={"operators": tuple(o.model_copy(update={"dtype": "x"}) for o in group_.operators)})
        for group_ in model.structure.groups
    )
    traits = QuantizationTraits(method=method, bits=bits, group_size=group, source="a test")
    structure = model.structure.model_copy(update={"groups": groups})
    model = model.model_copy(update={"quantization": traits, "structure": structure})
    entry = of(costs(model, name, prefill_tokens=100_000), "prefill")["down_proj"]
    return entry.flops / entry.seconds


def test_without_operators_the_weights_count_as_one_and_it_says_so() -> None:
    known, lumped = costs(dense(llama_8b())), costs(llama_8b())
    assert "operators are not known one by one" in lumped.source
    assert set(of(lumped, "decode")) == {"weights", "attention", "embed_tokens", "lm_head"}
    for phase in ("prefill", "decode"):
        assert linear_flops(lumped, phase) == pytest.approx(linear_flops(known, phase), rel=0.001)
    assert active_parameters(llama_8b()) is None


def test_hardware_without_rates_has_no_profile() -> None:
    assert cost_profile(llama_8b(), CPU, Layout()) is None
