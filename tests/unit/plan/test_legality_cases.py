"""Public reports of layouts that did not start, as small profiles."""

import pytest
from hand_operators import expert_operators, mlp_operators, operator, with_operators

from autoadapter.artifacts import ModelProfile
from autoadapter.artifacts.model_profile import AttentionTraits, MlpTraits, MoeTraits, QuantizationTraits
from autoadapter.artifacts.model_structure import CacheEntry, StateEntry
from autoadapter.plan.legality import (
    Layout,
    all_layouts,
    decode_context_refusal,
    judge,
    layouts,
    tensor_sizes,
)
from autoadapter.plan.legality.heads import attention_heads
from tests.unit.plan.sketches import llama_8b, mla_16b, qwen3_30b


def dense(
    heads: int, kv_heads: int, width: int, *, vocab: int = 64 * 840, head_dim: int = 128, layers: int = 4
) -> ModelProfile:
    """A dense model of given sizes, whose vocabulary of 53760 any size up to 8 divides."""
    attention = AttentionTraits(
        kind="gqa", num_layers=layers, num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=head_dim
    )
    base = llama_8b()
    group = base.structure.groups[0]
    cache = CacheEntry(kind="full_attention", kv_heads=kv_heads, key_dim=head_dim, value_dim=head_dim)
    groups = (group.model_copy(update={"layers": tuple(range(layers)), "caches": (cache,)}),)
    return base.model_copy(
        update={
            "attention": attention,
            "embedding": base.embedding.model_copy(update={"vocab_size": vocab}),
            "mlp": MlpTraits(intermediate_size=width, activation="silu", gated=True),
            "structure": base.structure.model_copy(update={"groups": groups}),
        }
    )


def quantized(profile: ModelProfile, method: str, group: int, *, blocks: bool = False) -> ModelProfile:
    traits = QuantizationTraits(
        method=method,
        bits=8 if blocks else 4,
        group_size=group,
        block_size=(group, group) if blocks else None,
        source="x",
    )
    return profile.model_copy(update={"quantization": traits})


def served_by(profile: ModelProfile, version: str, architecture: str | None = None) -> ModelProfile:
    verdict = profile.verdict.model_copy(update={"vllm_version": version})
    return profile.model_copy(update={"verdict": verdict, "architecture": architecture or profile.architecture})


def moe(width: int, experts: int = 128, *, dense_layers: int = 0) -> ModelProfile:
    traits = MoeTraits(
        num_experts=experts, num_experts_per_tok=8, moe_intermediate_size=width, num_dense_layers=dense_layers
    )
    return qwen3_30b().model_copy(update={"moe": traits})


@pytest.mark.parametrize(
    ("heads", "kv_heads", "width", "group", "legal", "advice"),
    [
        (64, 8, 29_568, 128, (1,), "zero-pad 29568 to 29696 before quantizing, or quantize in groups of 64"),
        (40, 40, 13_696, 128, (1,), "zero-pad 13696 to 14336 before quantizing, or quantize in groups of 64"),
        (40, 8, 27_392, 128, (1, 2), "zero-pad 27392 to 27648 before quantizing, or quantize in groups of 64"),
        (64, 8, 29_568, 64, (1, 2), "zero-pad 29568 to 29696 before quantizing, or quantize in groups of 32"),
        (64, 8, 29_696, 128, (1, 2, 4, 8), None),
    ],
)
def test_groups_of_the_intermediate_size(
    heads: int, kv_heads: int, width: int, group: int, legal: tuple[int, ...], advice: str | None
) -> None:
    model = quantized(dense(heads, kv_heads, width), "gptq", group)
    assert tensor_sizes(model, 8) == legal
    if advice:
        verdict = judge(model, Layout(tensor=8))
        assert not verdict.legal
        assert verdict.remedy is not None
        assert advice in verdict.remedy


def test_groups_must_fill_the_hidden_size_whatever_the_layout() -> None:
    """Falcon-7B: 4544 is 35.5 groups of 128."""
    hidden = dense(64, 8, 18_176).embedding.model_copy(update={"hidden_size": 4544})
    model = quantized(dense(64, 8, 18_176).model_copy(update={"embedding": hidden}), "awq", 128)
    alone = judge(model, Layout())
    assert alone.reason == "its quantization groups of 128 do not fill the 4544 inputs of its projections"
    assert alone.remedy == "no layout helps: quantize again in groups of 64"
    assert judge(quantized(model, "awq", 64), Layout()).legal
    assert judge(quantized(model, "fp8", 128, blocks=True), Layout()).legal


def test_an_unquantized_model_of_the_same_shape_is_divided_freely() -> None:
    assert tensor_sizes(dense(64, 8, 29_568), 8) == (1, 2, 4, 8)


def test_sizes_that_are_no_powers_of_two_count() -> None:
    """28 heads: every divisor, as long as 7 and 14 can divide or repeat the key/value heads, which 4 they cannot."""
    assert tensor_sizes(dense(28, 28, 28 * 128), 28) == (1, 2, 4, 7, 14, 28)
    assert tensor_sizes(dense(28, 4, 28 * 128), 28) == (1, 2, 4, 28)
    eight = judge(dense(28, 4, 28 * 128), Layout(tensor=8))
    assert (eight.reason, eight.legal) == ("28 attention heads cannot be divided by 8", False)
    assert eight.remedy == "28 heads can be divided by 1, 2, 4, 7, 14, 28; more GPUs can be replicas or pipeline stages"
    assert [size for size in range(1, 29) if attention_heads(dense(28, 4, 28), size) is None] == [1, 2, 4, 7, 14, 28]


def test_odd_device_counts_are_used_by_replicas_and_stages() -> None:
    model = dense(40, 40, 40 * 128, vocab=64 * 2000)
    verdicts = all_layouts(model, 6)
    legal = {(v.layout.tensor, v.layout.pipeline, v.layout.data) for v in verdicts if v.legal}
    assert {tensor for tensor, _, _ in legal} == {1, 2, 4, 5}
    assert {(2, 1, 3), (2, 3, 1), (1, 1, 6), (1, 4, 1)} <= legal
    assert [v.layout.tensor for v in verdicts if not v.legal and v.layout.pipeline == 1] == [3, 6]
    assert all(v.reason and v.source for v in verdicts if not v.legal)


def test_three_devices_take_two_or_replicas() -> None:
    assert tensor_sizes(dense(32, 16, 21_504), 3) == (1, 2)


def test_few_key_value_heads_are_repeated() -> None:
    verdict = judge(dense(12, 2, 8960), Layout(tensor=4))
    assert verdict.legal
    assert verdict.notes == ("key/value heads are repeated: 2 ranks hold the same",)


def test_every_layer_must_divide() -> None:
    """OpenELM: heads differ layer by layer, 12 over 3, 16 over 4, 20 over 5."""
    base = dense(12, 3, 4096, head_dim=64, layers=16)
    group = base.structure.groups[0]
    counts = ((range(5), 12, 3), (range(5, 12), 16, 4), (range(12, 16), 20, 5))
    groups = tuple(
        group.model_copy(
            update={
                "layers": tuple(layers),
                "caches": (CacheEntry(kind="full_attention", kv_heads=kv, key_dim=64, value_dim=64),),
                "operators": (operator("q_proj", 4096, heads * 64),),
            }
        )
        for layers, heads, kv in counts
    )
    model = base.model_copy(update={"structure": base.structure.model_copy(update={"groups": groups})})
    assert tensor_sizes(model, 16) == (1,)
    three = judge(model, Layout(tensor=3))
    assert three.reason == "16 attention heads cannot be divided by 3"
    two = judge(model, Layout(tensor=2))
    assert two.reason == "3 key/value heads of layer 0, 1, 2, … can be neither divided nor repeated over 2"


def test_global_layers_with_few_heads_count_apart() -> None:
    """Gemma-4: 16 key/value heads in sliding layers, 4 in global ones. 12 divides neither, 8 repeats the four."""
    base = dense(48, 16, 48 * 128)
    caches = (
        CacheEntry(kind="sliding_attention", kv_heads=16, key_dim=256, value_dim=256, window=1024),
        CacheEntry(kind="full_attention", kv_heads=4, key_dim=512, value_dim=512),
    )
    groups = tuple(
        base.structure.groups[0].model_copy(update={"layers": (number,), "caches": (cache,)})
        for number, cache in enumerate(caches)
    )
    model = base.model_copy(update={"structure": base.structure.model_copy(update={"groups": groups})})
    assert judge(model, Layout(tensor=8)).notes == ("key/value heads are repeated: 2 ranks hold the same",)
    assert not judge(model, Layout(tensor=12)).legal
    assert tensor_sizes(model, 16) == (1, 2, 4, 8, 16)


def test_layers_of_their_own_width_must_divide() -> None:
    """Nemotron-NAS: one layer is narrower than what the configuration says of all."""
    base = dense(64, 8, 28_672)
    group = base.structure.groups[0]
    groups = (
        group.model_copy(update={"layers": (0,), "operators": tuple(mlp_operators(8192, 28_672))}),
        group.model_copy(update={"layers": (1,), "operators": tuple(mlp_operators(8192, 5604))}),
    )
    model = base.model_copy(update={"structure": base.structure.model_copy(update={"groups": groups})})
    assert judge(model, Layout(tensor=8)).reason == "gate_proj of layer 1: 5604 cannot be divided by 8"
    assert judge(model, Layout(tensor=4)).legal


@pytest.mark.parametrize(
    ("width", "version", "sliced"),
    [
        (768, "0.25.1", {1, 2}),
        (768, "0.32.0", {1, 2, 4, 8}),
        (1536, "0.28.0", {1, 2, 4}),
        (1536, "0.29.0", {1, 2, 4, 8}),
        (640, "0.28.0", {1}),
        (640, "0.32.0", {1, 2, 4}),
    ],
)
def test_blocks_of_experts(width: int, version: str, sliced: set[int]) -> None:
    """Qwen3-30B-A3B-FP8, MiniMax-M2, Qwen3.8-Flash-Next: since 0.29 blocks are refined where 32 still divides."""
    model = served_by(quantized(moe(width), "fp8", 128, blocks=True), version)
    assert {size for size in (1, 2, 4, 8) if judge(model, Layout(tensor=size)).legal} == sliced
    assert all(judge(model, Layout(tensor=size, expert_parallel=True)).legal for size in (2, 4, 8))
    refused = [verdict for size in (2, 4, 8) if not (verdict := judge(model, Layout(tensor=size))).legal]
    assert {verdict.remedy for verdict in refused} <= {
        "expert parallelism keeps experts whole: --enable-expert-parallel"
    }


def test_refined_blocks_are_told_and_not_planned() -> None:
    model = quantized(moe(768), "fp8", 128, blocks=True)
    (note,) = judge(model, Layout(tensor=8)).notes[-1:]
    assert "straddle shards of 96: since vLLM 0.29.0 they are refined to 32, which only Triton kernels take" in note
    planned, _ = layouts(model, 8)
    assert Layout(tensor=4, expert_parallel=True) in planned
    assert Layout(tensor=4) not in planned


def test_integer_groups_of_experts() -> None:
    """compressed-tensors stops; GPTQ and AWQ halve their groups down to 32."""
    packed, gptq = (quantized(moe(768), method, 128) for method in ("compressed-tensors", "gptq"))
    assert not judge(packed, Layout(tensor=4)).legal
    assert judge(gptq, Layout(tensor=4)).legal
    assert judge(gptq, Layout(tensor=8)).legal
    assert not judge(gptq, Layout(tensor=16)).legal


def test_mxfp4_experts_are_padded_by_vllm() -> None:
    """gpt-oss: 2880 / 8 = 360 is no multiple of 32, and it serves."""
    assert judge(quantized(moe(2880, 32), "mxfp4", 32), Layout(tensor=8)).legal


def test_experts_of_another_format_have_no_blocks() -> None:
    """DeepSeek-V4: the configuration's blocks are those of attention, its experts are MXFP4."""
    experts = [entry.model_copy(update={"dtype": "mxfp4"}) for entry in expert_operators(2048, 768, 128, 8)]
    model = served_by(with_operators(quantized(moe(768), "fp8", 128, blocks=True), experts), "0.25.1")
    assert judge(model, Layout(tensor=8)).legal
    assert judge(model, Layout(tensor=8)).notes[1:] == ()


def test_experts_are_sliced_over_data_parallel_ranks_too() -> None:
    assert not judge(moe(770), Layout(tensor=2, data=2)).legal
    assert judge(moe(770), Layout(tensor=2, data=2, expert_parallel=True)).legal


def test_unequal_shares_of_experts_by_version() -> None:
    layout = Layout(data=3, expert_parallel=True)
    old = judge(served_by(moe(2048, 256), "0.30.0", "DeepseekV4ForCausalLM"), layout)
    assert old.reason == "256 experts cannot be dealt out over 3 ranks"
    assert old.remedy == "1, 2, 4, 8, 16 ranks, or EPLB with num_redundant_experts 2"
    new = judge(served_by(moe(2048, 256), "0.32.0", "DeepseekV4ForCausalLM"), layout)
    assert new.legal
    assert new.notes == ("256 experts over 3 ranks: some hold 86, others 85; EPLB would need num_redundant_experts 2",)


def test_more_ranks_than_experts() -> None:
    reason = judge(moe(2048, 8), Layout(tensor=4, data=4, expert_parallel=True)).reason
    assert reason == "8 experts are fewer than 16 ranks"


@pytest.mark.parametrize(("groups", "legal"), [(8, (1, 2, 4, 8)), (1, (1, 2, 4, 8, 16))])
def test_recurrent_groups(groups: int, legal: tuple[int, ...]) -> None:
    """Nemotron-H has 8 groups; a single group is repeated."""
    base = dense(64, 8, 16_384)
    state = StateEntry(name="conv", elements=16_384 * 3, groups=groups, elements_per_group=768, dtype="bfloat16")
    group = base.structure.groups[0].model_copy(update={"states": (state,)})
    model = base.model_copy(update={"structure": base.structure.model_copy(update={"groups": (group,)})})
    assert tuple(size for size in tensor_sizes(model, 16) if size & (size - 1) == 0) == legal


def test_quantized_shared_experts_and_projections_hold_whole_groups() -> None:
    """Where operators are known those that are quantized count, and those left plain do not."""
    shared = [entry.model_copy(update={"dtype": "fp8"}) for entry in mlp_operators(2048, 1536, "shared_expert.")]
    model = with_operators(quantized(moe(2048), "fp8", 128, blocks=True), shared)
    assert judge(model, Layout(tensor=8)).reason == (
        "its quantization groups of 128 straddle shards of 192 (shared_expert.down_proj)"
    )
    plain = with_operators(quantized(moe(2048), "fp8", 128, blocks=True), mlp_operators(2048, 1536, "shared_expert."))
    assert judge(plain, Layout(tensor=8)).legal


def test_the_latent_is_whole_on_each_rank_until_context_parallelism_divides_it() -> None:
    assert judge(mla_16b(), Layout(tensor=8)).notes[0] == "the latent KV cache is whole on each of the 8 ranks"
    assert decode_context_refusal(mla_16b(), 8, 4) is None
    assert decode_context_refusal(mla_16b(), 8, 3) is not None
    assert decode_context_refusal(llama_8b(), 8, 2) is not None
    assert decode_context_refusal(llama_8b(), 16, 2) is None
    assert decode_context_refusal(llama_8b(), 16, 4) is not None


def test_stages_need_layers() -> None:
    refused = [v for v in all_layouts(dense(8, 8, 1024, layers=2), 4) if v.layout.pipeline > 2]
    assert refused
    assert {v.reason for v in refused} == {"3 pipeline stages for 2 layers", "4 pipeline stages for 2 layers"}


def test_a_layout_is_listed_once_and_never_exceeds_the_devices() -> None:
    verdicts = all_layouts(moe(768), 8)
    assert len({v.layout for v in verdicts}) == len(verdicts)
    assert all(v.layout.devices <= 8 for v in verdicts)
    legal = [v.layout for v in verdicts if v.legal]
    plain = [layout.devices for layout in legal if not {3, 5, 6, 7} & {layout.tensor, layout.pipeline, layout.data}]
    assert [layout.devices for layout in legal[: len(plain)]] == plain == sorted(plain)
