"""The cache against numbers that vLLM printed in public threads, with the models and flags that those state.

Not here, for want of a field: Qwen2.5-VL-7B of QwenLM/Qwen3-VL#1057 (available memory), gpt-oss-120b of vllm#33155
(tokens), DeepSeek-V3 of vllm#12258 and Qwen2.5-VL-72B of vllm#16570 (weights only), DP8 against TP8 of recipes#762 and
vllm#51454 (model and memory), and of MiniMax-M2.7 the memory behind its longest context of 190,272 tokens.
"""

import pytest

from autoadapter.plan.kv import KvQuestion, kv_capacity, kv_layout, longest_request, needed_bytes, printed_tokens
from tests.unit.plan.kv_models import GIB, MODELS


def pool(gib: float) -> int:
    return int(gib * GIB)


def test_qwen3_5_27b_on_an_h20() -> None:
    """vllm#40691, vLLM 0.19.0: blocks of 784 tokens, 290,864 tokens, 33.04 requests of 32,768; no prefix caching."""
    question = KvQuestion(max_model_len=32_768, prefix_caching=False, vllm_version="0.19.0")
    layout = kv_layout(MODELS["qwen3.5-27b"], question)
    assert layout.block_size == 784
    found = layout.capacity(1487 * layout.bytes_per_block)
    assert printed_tokens(found, "0.19.0") == 290_864
    assert round(found.max_concurrency, 2) == 33.04


def test_a_27b_hybrid_on_two_3090_with_fp8_cache() -> None:
    """A public report, 4.99 GiB a GPU: blocks of 1,568, 302,921 tokens, 2.31 requests of 131,072; prefix caching."""
    question = KvQuestion(max_model_len=131_072, tensor_parallel=2, kv_cache_dtype="fp8")
    found = kv_capacity(MODELS["qwen3.5-27b"], question, pool(4.99))
    assert (found.block_size, found.tokens, round(found.max_concurrency, 2)) == (1568, 302_921, 2.31)


@pytest.mark.parametrize(("gib", "printed"), [(64.68, 626_949), (103.92, 1_007_303)])
def test_gemma_4_31b_on_an_h200(gib: float, printed: int) -> None:
    """Public reports, vLLM 0.24, context 262,144."""
    question = KvQuestion(max_model_len=262_144, vllm_version="0.24.0+build")
    found = kv_capacity(MODELS["gemma-4-31b"], question, pool(gib))
    assert printed_tokens(found, "0.24.0") == pytest.approx(printed, rel=3e-5)


def test_the_old_line_of_gemma_4_31b() -> None:
    """A public report: 24.54 GiB and 26,800 tokens, which are blocks by groups and no capacity."""
    question = KvQuestion(max_model_len=262_144, vllm_version="0.20.0")
    found = kv_capacity(MODELS["gemma-4-31b"], question, pool(24.54))
    assert printed_tokens(found, "0.20.0") == 26_800
    assert found.tokens > 8 * 26_800


def test_qwen3_235b_with_one_head_a_rank() -> None:
    """vllm#21348, TP 4, 8.11 GiB on one of the ranks: 178,880 tokens; the rank with least decides."""
    found = kv_capacity(MODELS["qwen3-235b-a22b"], KvQuestion(max_model_len=32_768, tensor_parallel=4), pool(8.11))
    assert found.tokens_in_blocks == pytest.approx(178_880, rel=0.012)


def test_qwen3_30b_with_fp8_cache() -> None:
    """vllm#25350: 10.55 GiB, 230,528 tokens, 2.31 requests of 100,000; 10.12 GiB are needed for 221,000."""
    question = KvQuestion(max_model_len=100_000, kv_cache_dtype="fp8", vllm_version="0.19.0")
    found = kv_capacity(MODELS["qwen3-30b-a3b"], question, pool(10.55))
    assert found.tokens_in_blocks == pytest.approx(230_528, rel=0.0005)
    assert found.max_concurrency == pytest.approx(2.31, rel=0.003)
    assert round(needed_bytes(MODELS["qwen3-30b-a3b"], question, 221_000) / GIB, 2) == 10.12


def test_minimax_m2_on_two_machines() -> None:
    """A public report, TP 2: 23.25 GiB are needed for 196,608; 28.74 GiB hold 240,816 tokens, 1.22 requests."""
    question = KvQuestion(max_model_len=196_608, tensor_parallel=2, vllm_version="0.19.0")
    assert round(needed_bytes(MODELS["minimax-m2"], question, 196_608) / GIB, 2) == 23.25
    found = kv_capacity(MODELS["minimax-m2"], question, pool(28.74))
    assert found.tokens_in_blocks == pytest.approx(240_816, rel=0.01)
    assert found.max_concurrency == pytest.approx(1.22, rel=0.015)


def test_llama_4_scout_in_two_stages_holds_everything() -> None:
    """vllm#29431, without the hybrid manager: 29.72 GiB hold one request of 324,640."""
    question = KvQuestion(max_model_len=1_000_000, pipeline_parallel=2, hybrid_manager=False, vllm_version="0.19.0")
    found = longest_request(MODELS["llama-4-scout"], question, pool(29.72), 10_000_000)
    assert found == pytest.approx(324_640, rel=0.0002)


@pytest.mark.parametrize(
    ("model", "length", "gib", "tokens", "concurrency"),
    [("qwen3-14b", 32_768, 6.51, 42_656, 1.30), ("qwen3-8b", 2048, 36.88, 268_560, 131.13)],
)
def test_plain_models(model: str, length: int, gib: float, tokens: int, concurrency: float) -> None:
    """LMCache#1739; vllm#57047 (36 layers, 8 key/value heads of 128)."""
    found = kv_capacity(MODELS[model], KvQuestion(max_model_len=length, vllm_version="0.19.0"), pool(gib))
    assert found.tokens_in_blocks == pytest.approx(tokens, rel=0.0001)
    assert found.max_concurrency == pytest.approx(concurrency, rel=0.002)


def test_the_block_of_nemotron_nano() -> None:
    """vllm#24280: 672 tokens."""
    layout = kv_layout(MODELS["nemotron-nano-9b-v2"], KvQuestion(max_model_len=131_072, vllm_version="0.19.0"))
    assert layout.block_size == 672
