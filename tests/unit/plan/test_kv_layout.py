"""The cache by parts: heads and latents over ranks, stages, versions, blocks, and where vLLM refuses."""

from dataclasses import replace

import pytest

from autoadapter.artifacts import CacheEntry
from autoadapter.plan.kv import (
    KvQuestion,
    KvRefusedError,
    kv_capacity,
    kv_layout,
    kv_notes,
    longest_request,
    needed_bytes,
    request_bytes,
)
from autoadapter.plan.kv.rules import Rules, rules_of
from tests.unit.plan.kv_models import GIB, MODELS, alike, delta_net, full, latent, mamba2, sliding, stack

PLAIN = KvQuestion(max_model_len=32_768)
LLAMA, DEEPSEEK, GEMMA = MODELS["llama-8b"], MODELS["deepseek-v2-lite"], MODELS["gemma-4-31b"]


@pytest.mark.parametrize(("tensor", "heads"), [(1, 8), (2, 4), (8, 1), (16, 1)])
def test_heads_are_divided_then_repeated(tensor: int, heads: int) -> None:
    layout = kv_layout(LLAMA, replace(PLAIN, tensor_parallel=tensor))
    assert layout.token_bytes == 32 * heads * 2 * 128 * 2
    assert layout.bytes_per_block == 16 * layout.token_bytes


def test_the_latent_is_whole_on_every_rank_but_for_context_parallelism() -> None:
    alone = kv_capacity(DEEPSEEK, PLAIN, 40 * GIB)
    assert kv_capacity(DEEPSEEK, replace(PLAIN, tensor_parallel=8), 40 * GIB) == alone
    shared = kv_capacity(DEEPSEEK, replace(PLAIN, decode_context_parallel=4), 40 * GIB)
    assert shared.max_concurrency == pytest.approx(4 * alone.max_concurrency)
    assert shared.tokens_in_blocks == 4 * alone.tokens_in_blocks


@pytest.mark.parametrize(
    ("word", "row"), [("auto", 1152), ("fp8", 576), ("fp8_ds_mla", 656), ("nvfp4_ds_mla", 352), ("float32", 2304)]
)
def test_bytes_of_a_latent(word: str, row: int) -> None:
    assert kv_layout(DEEPSEEK, replace(PLAIN, kv_cache_dtype=word)).token_bytes == 27 * row


@pytest.mark.parametrize(
    ("word", "row"),
    [("auto", 512), ("fp8_e5m2", 256), ("int8_per_token_head", 264), ("int4_per_token_head", 136), ("nvfp4", 144)],
)
def test_bytes_of_a_head(word: str, row: int) -> None:
    assert kv_layout(alike(1, full(1, 128)), replace(PLAIN, kv_cache_dtype=word)).token_bytes == row


def test_an_indexer_has_keys_of_its_own() -> None:
    index = CacheEntry(kind="indexer", kv_heads=1, key_dim=132, value_dim=0, dtype="uint8")
    layout = kv_layout(alike(61, latent(), index), replace(PLAIN, kv_cache_dtype="fp8"))
    assert layout.token_bytes == 61 * (656 + 132)
    assert (layout.block_size, len(layout.groups)) == (64, 1)


def test_the_stage_with_fewest_blocks_decides() -> None:
    """32 layers over 3 stages are 10, 11 and 11: the rest goes before the last stage, which is 10 again."""
    question = replace(PLAIN, pipeline_parallel=3)
    layout = kv_layout(LLAMA, question)
    assert [size // (16 * 4096) for size in layout.stage_bytes] == [11, 11, 10]
    pools = (20 * GIB, 10 * GIB, 20 * GIB)
    assert kv_capacity(LLAMA, question, pools).blocks == 10 * GIB // (11 * 16 * 4096)
    assert layout.longest(pools, 10**6) == (10 * GIB // (11 * 16 * 4096) - 1) * 16


def test_a_stage_without_a_cache_is_refused() -> None:
    with pytest.raises(KvRefusedError, match="pipeline stages"):
        kv_layout(stack((8, [full(8, 128)], ()), (8, (), ())), replace(PLAIN, pipeline_parallel=2))


def test_a_window_under_context_parallelism_is_refused() -> None:
    with pytest.raises(KvRefusedError, match="sliding window"):
        kv_layout(GEMMA, replace(PLAIN, decode_context_parallel=2))


def test_one_block_is_never_handed_out() -> None:
    """Newer vLLM counts it where it checks that one request fits."""
    old, new = (replace(PLAIN, vllm_version=version) for version in ("0.28.0", "0.29.0"))
    block = kv_layout(LLAMA, PLAIN).bytes_per_block
    assert needed_bytes(LLAMA, new, 8192) == needed_bytes(LLAMA, old, 8192) + block == 513 * block
    assert request_bytes(LLAMA, new, 8192) == request_bytes(LLAMA, new, 8177) == 512 * block
    assert longest_request(LLAMA, old, 512 * block, 9999) == 8192
    assert longest_request(LLAMA, new, 512 * block, 9999) == 8176
    assert longest_request(LLAMA, new, block, 9999) == 0


def test_global_layers_of_other_pages_get_other_blocks() -> None:
    layout = kv_layout(GEMMA, PLAIN)
    assert sorted({group.block_size for group in layout.groups}) == [16, 32]
    assert [len(group.members) for group in layout.groups] == [10] * 6


def test_pages_that_do_not_divide_are_padded_or_refused() -> None:
    odd = stack((4, [full(3, 96)], ()), (4, [sliding(8, 128, 512)], ()))
    assert kv_layout(odd, PLAIN).bytes_per_block == 4 * 16 * 8 * 2 * 128 * 2
    with pytest.raises(KvRefusedError, match="pages of one size"):
        kv_layout(odd, replace(PLAIN, vllm_version="0.23.0"))


def test_values_of_a_window_were_once_as_wide_as_its_keys() -> None:
    entry = CacheEntry(kind="sliding_attention", kv_heads=8, key_dim=192, value_dim=128, window=128)
    sizes = [kv_layout(alike(1, entry), replace(PLAIN, vllm_version=v)).token_bytes for v in ("0.19.0", "0.20.0")]
    assert sizes == [8 * 384 * 2, 8 * 320 * 2]


def test_a_state_is_one_block_or_two() -> None:
    model = MODELS["qwen3.5-27b"]
    blocks = [kv_layout(model, replace(PLAIN, prefix_caching=caching)).blocks_for(784) for caching in (False, True)]
    assert blocks == [1 + 3, 1 + 3 * 2]
    speculating = kv_layout(model, replace(PLAIN, speculative_tokens=2))
    assert speculating.blocks_for(1) == 1 + 3 * (2 + 2)
    assert kv_notes(model, replace(PLAIN, speculative_tokens=2))


def test_pure_recurrent_models_have_no_prefix_caching() -> None:
    states = mamba2(80, 64, 1, 128, "float32")
    layout = kv_layout(stack((24, (), states)), PLAIN)
    one = 24 * (3 * (80 * 64 + 2 * 128) * 2 + 80 * 64 * 128 * 4)
    assert (layout.bytes_per_block, layout.blocks_for(1), layout.blocks_for(10**6)) == (one, 1, 1)
    assert layout.token_bytes == 0


def test_groups_of_a_state_that_do_not_divide_are_repeated() -> None:
    """Mamba-2 with one group under TP 4: every rank holds a group of its own."""
    states = mamba2(64, 64, 1, 128, "bfloat16")
    layout = kv_layout(stack((1, (), states)), replace(PLAIN, tensor_parallel=4))
    assert layout.bytes_per_block == (3 * (64 * 64 + 4 * 2 * 128) // 4 + 64 * 64 * 128 // 4) * 2


@pytest.mark.parametrize(("version", "tokens"), [("0.19.0", 960), ("0.27.0", 1024)])
def test_hybrids_with_latents_grow_in_steps(version: str, tokens: int) -> None:
    """A state of 1,073,152 bytes beside 1,152 bytes a token: 932 tokens, rounded up to steps of 64, later of 128."""
    model = stack((3, (), delta_net(8, 16)), (1, [latent()], ()), repeats=6)
    assert kv_layout(model, replace(PLAIN, vllm_version=version)).block_size == tokens


def test_blocks_of_a_cpu() -> None:
    question = replace(PLAIN, device="cpu")
    assert [kv_layout(model, question).block_size for model in (LLAMA, DEEPSEEK)] == [128, 16]
    assert kv_layout(LLAMA, replace(question, block_size=64)).block_size == 64
    assert kv_layout(DEEPSEEK, replace(question, block_size=64)).block_size == 16


def test_a_model_that_keeps_nothing_has_one_block_and_a_note() -> None:
    nothing = stack((4, (), ()))
    found = kv_capacity(nothing, PLAIN, GIB)
    assert (found.blocks, found.blocks_per_request, found.max_concurrency, found.tokens) == (1, 0, 0.0, 0)
    assert "max-num-seqs" in kv_notes(nothing, PLAIN)[0]


@pytest.mark.parametrize(
    ("stages", "asynchronous", "version", "batches"),
    [
        (1, True, "0.32.0", 2),
        (1, False, "0.32.0", 1),
        (4, True, "0.32.0", 5),
        (4, True, "0.27.0", 4),
        (4, True, "0.25.1", 1),
    ],
)
def test_batches_in_flight(stages: int, asynchronous: bool, version: str, batches: int) -> None:
    question = replace(PLAIN, pipeline_parallel=stages, async_scheduling=asynchronous, vllm_version=version)
    assert question.in_flight_tokens == batches * 8192


def test_notes_are_for_what_is_not_exact() -> None:
    assert kv_notes(LLAMA, PLAIN) == kv_notes(GEMMA, PLAIN) == kv_notes(MODELS["qwen3.5-27b"], PLAIN) == ()
    assert kv_notes(LLAMA, replace(PLAIN, vllm_version="0.11.0"))
    assert kv_notes(LLAMA, replace(PLAIN, kv_cache_dtype="turboquant_k8v4"))
    assert kv_notes(MODELS["qwen3.5-27b"], replace(PLAIN, vllm_version="0.25.1"))


def test_rules_follow_versions() -> None:
    assert rules_of("0.12.0") == rules_of("0.19.3") == Rules()
    assert rules_of("0.32.0") == rules_of("0.40.1") == rules_of("dev")
    windows = [rules_of(f"0.{minor}.0").windows_take_smallest_block for minor in (24, 25, 29, 30)]
    assert windows == [False, True, True, False]


def test_notes_speak_of_versions_that_were_not_read() -> None:
    structure = next(iter(MODELS.values()))
    for version, told in (("0.18.1", True), ("0.19.0", False), ("dev", False)):
        notes = kv_notes(structure, KvQuestion(max_model_len=16, vllm_version=version))
        assert any("older than 0.19" in note for note in notes) is told
