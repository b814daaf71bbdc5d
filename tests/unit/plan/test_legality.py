"""Which tensor sizes vLLM accepts, and the reason for each refusal."""

import pytest

from autoadapter.artifacts import ModelProfile
from autoadapter.artifacts.model_profile import AttentionTraits, MlpTraits, MoeTraits, QuantizationTraits
from autoadapter.plan.legality import Layout, block_refusal, expert_split_refusal, layouts, tensor_refusal
from tests.unit.plan.sketches import llama_8b, llama_70b, mla_16b, qwen3_14b, qwen3_30b, smollm2


@pytest.mark.parametrize(
    ("model", "tensor", "reason"),
    [
        (smollm2(), 1, None),
        (smollm2(), 2, "9 attention heads cannot be divided by 2"),
        (smollm2(), 3, None),
        (llama_8b(), 16, None),
        (llama_8b(), 3, "32 attention heads cannot be divided by 3"),
        (qwen3_14b(), 5, "8 key/value heads can be neither divided nor repeated over 5"),
        (mla_16b(), 8, None),
        (llama_70b(), 64, None),
    ],
)
def test_tensor_sizes(model: ModelProfile, tensor: int, reason: str | None) -> None:
    assert tensor_refusal(model, tensor) == reason


def test_the_padded_vocabulary_must_divide() -> None:
    """Qwen3-14B with 5 key/value heads, so that they do not stop it first."""
    heads = qwen3_14b().attention.model_copy(update={"num_key_value_heads": 5})
    group = qwen3_14b().structure.groups[0]
    cache = group.caches[0].model_copy(update={"kv_heads": 5})
    structure = qwen3_14b().structure.model_copy(update={"groups": (group.model_copy(update={"caches": (cache,)}),)})
    model = qwen3_14b().model_copy(update={"attention": heads, "structure": structure})
    assert tensor_refusal(model, 5) == "the vocabulary, padded to 151936, cannot be divided by 5"


def test_the_intermediate_size_must_divide() -> None:
    model = llama_8b().model_copy(update={"mlp": MlpTraits(intermediate_size=14_338, activation="silu", gated=True)})
    assert tensor_refusal(model, 4) == "the intermediate size 14338 cannot be divided by 4"


def test_groups_may_not_straddle_shards() -> None:
    groups = QuantizationTraits(method="gptq", bits=4, group_size=128, source="a test")
    odd = MlpTraits(intermediate_size=13_696, activation="silu", gated=True)
    model = llama_8b().model_copy(update={"quantization": groups, "mlp": odd})
    assert block_refusal(model, 1) is None
    assert block_refusal(model, 2) == "its quantization groups of 128 straddle shards of 6848"


def test_experts_that_cannot_be_sliced_stay_whole() -> None:
    assert expert_split_refusal(qwen3_30b(), 8) is None
    assert expert_split_refusal(qwen3_30b(), 5) == "the experts' intermediate size 768 cannot be divided by 5"
    blocks = QuantizationTraits(method="fp8", bits=8, group_size=128, source="a test")
    quantized = qwen3_30b().model_copy(update={"quantization": blocks})
    assert expert_split_refusal(quantized, 8) == "its quantization groups of 128 straddle shards of 96"
    legal, _ = layouts(quantized, 8)
    assert Layout(tensor=8, expert_parallel=True) in legal
    assert Layout(tensor=2) in legal


def minimax() -> ModelProfile:
    """MiniMax-M2: `intermediate_size` is the experts' width, and blocks of 128 straddle an eighth of it."""
    attention = AttentionTraits(kind="gqa", num_layers=62, num_attention_heads=48, num_key_value_heads=8, head_dim=128)
    return qwen3_30b().model_copy(
        update={
            "attention": attention,
            "mlp": MlpTraits(intermediate_size=1536, activation="silu", gated=True),
            "moe": MoeTraits(num_experts=256, num_experts_per_tok=8, moe_intermediate_size=1536),
            "quantization": QuantizationTraits(method="fp8", bits=8, group_size=128, source="a test"),
        }
    )


def test_without_dense_layers_only_experts_have_a_width() -> None:
    legal, refused = layouts(minimax(), 8)
    assert refused == {}
    assert Layout(tensor=8, expert_parallel=True) in legal
    odd = minimax().model_copy(update={"mlp": MlpTraits(intermediate_size=1537, activation="silu", gated=True)})
    assert tensor_refusal(odd, 8) is None


def test_dense_layers_beside_experts_must_divide() -> None:
    moe = minimax().moe
    assert moe is not None
    mixed = minimax().model_copy(update={"moe": moe.model_copy(update={"num_dense_layers": 1})})
    assert block_refusal(mixed, 8) == "its quantization groups of 128 straddle shards of 192"


def test_refusals_name_powers_of_two_and_legal_sizes_use_all_devices() -> None:
    legal, refused = layouts(smollm2(), 8)
    assert set(refused) == {2, 4, 8}
    assert {(layout.tensor, layout.data) for layout in legal if layout.pipeline == 1} == {
        (1, 1),
        (1, 8),
        (3, 1),
        (3, 2),
    }
    assert all(layout.devices <= 8 for layout in legal)


def test_pipeline_stages_never_outnumber_layers() -> None:
    short = smollm2().attention.model_copy(update={"num_layers": 3})
    legal, _ = layouts(smollm2().model_copy(update={"attention": short}), 8)
    assert max(layout.pipeline for layout in legal) == 3
