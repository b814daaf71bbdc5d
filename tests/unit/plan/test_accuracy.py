"""Sizes before launch against what vLLM printed: weights, and the KV cache from configuration and GPU alone.

The constants that are learned (bytes per logit, memory outside torch) are learned anew for each architecture from the
starts of all others. `-s` prints the tables of docs/reference/accuracy.md.
"""

import json
import statistics
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from public_models import PUBLIC, shortened

from autoadapter.analyze import analyze, resolve_model
from autoadapter.artifacts import ModelProfile, Scheme
from autoadapter.hardware import parse_hardware
from autoadapter.plan import overhead as overhead_module
from autoadapter.plan.kv import KvQuestion, kv_capacity, printed_tokens
from autoadapter.plan.legality import Layout
from autoadapter.plan.overhead import GIB, Batch, overhead
from autoadapter.plan.overhead_rows import OverheadRow, overhead_row
from autoadapter.plan.weights import stage_weights

BENCHMARKS = Path(__file__).parents[3] / "benchmarks" / "h200" / "startup_memory.jsonl"


class Start(NamedTuple):
    """A start that vLLM 0.19 logged on an H100: sizes in GiB."""

    model: str
    tensor: int
    pipeline: int
    scheme: str
    weights: float
    activation: float
    non_torch: float
    tokens: int

    @property
    def layout(self) -> Layout:
        return Layout(tensor=self.tensor, pipeline=self.pipeline)

    @property
    def architecture(self) -> str:
        """What is left out when its constants are learned."""
        facts = PUBLIC[self.model]
        return str(facts.get("text_config", facts)["model_type"])


LOGGED = """
    codellama-7b 1 1 as_is 12.56 0.77 0.25 126256
    deepseek-v2-lite 1 1 as_is 29.43 1.93 0.26 1505552
    llama-70b-fp8 2 1 as_is 33.88 1.96 2.10 244304
    llama-70b-fp8 4 1 as_is 16.96 1.97 2.21 708992
    gemma-2-27b 1 1 as_is 50.72 3.66 0.26 58672
    gemma-2-9b 1 1 as_is 17.22 3.65 0.25 168880
    gemma-3-12b 1 1 as_is 23.31 3.94 0.25 130304
    gemma-3-27b 1 1 as_is 51.45 3.99 0.26 36560
    gemma-7b 1 1 as_is 15.91 3.63 0.25 129760
    llama-8b 1 1 as_is 14.99 1.89 0.25 476000
    llama-8b 1 1 fp8_dynamic 8.49 1.89 0.25 529248
    llama-8b 1 4 as_is 4.26 1.05 0.07 2257264
    llama-8b 2 1 as_is 7.51 1.89 2.07 1044688
    llama-8b 4 1 as_is 3.77 1.89 2.13 2209792
    phi-4 1 1 as_is 27.39 1.52 0.25 241568
    mistral-24b 1 1 as_is 44.76 2.03 0.25 184752
    mixtral-8x7b 2 1 as_is 43.51 1.21 2.07 465936
    qwen2.5-72b 4 1 as_is 34.01 2.29 2.21 481296
    kimi-vl-a3b 1 1 as_is 30.74 2.92 0.25 1426368
    kimi-vl-a3b 2 1 as_is 15.53 2.85 2.07 1890896
    qwen2.5-72b 2 1 as_is 67.80 2.29 2.09 19920
    qwen2.5-7b 1 1 as_is 14.25 2.21 0.24 1096000
    qwen2.5-7b 2 1 as_is 7.12 2.21 2.06 2390592
    qwen3-30b-a3b 1 1 as_is 56.88 2.68 0.27 168288
    llama-70b-w8a8 2 1 as_is 33.88 1.96 2.11 244304
    mistral-24b-w8a8 2 1 as_is 12.11 2.03 2.07 773584
    llama-8b-w8a8 1 1 as_is 8.49 1.89 0.25 529200
    qwen2.5-7b-w8a8 1 1 as_is 8.14 2.21 0.25 1210272
"""
"""Public logs; starts that differ in nothing but the context are listed once."""
KINDS = (str, int, int, str, float, float, float, int)
STARTS = [
    Start(*(kind(cell) for kind, cell in zip(KINDS, line.split(), strict=True))) for line in LOGGED.strip().splitlines()
]
LENGTH, UTILIZATION = 8192, 0.95
BATCH = Batch(max_num_seqs=1024, max_num_batched_tokens=8192, graphs=True)
SAMPLED = {"llama", "gemma", "gemma2", "phi3", "qwen2"}
"""Plain text models whose peak is the sampler's: the ones that bytes per logit can be read from."""


class Served(NamedTuple):
    """A start of the H200 baseline, vLLM 0.25.1, offline `LLM` class: tokens of KV cache."""

    model: str
    scheme: str
    kv_dtype: str
    tokens: int


BASELINE = (
    Served("qwen3-8b", "as_is", "auto", 812160),
    Served("qwen3-8b", "as_is", "auto", 812176),
    Served("qwen3-8b", "fp8_dynamic", "auto", 859232),
    Served("qwen3-8b", "fp8_dynamic", "fp8", 1718480),
    Served("qwen3-8b-awq", "as_is", "auto", 881152),
    Served("qwen3-30b-a3b", "as_is", "auto", 738864),
    Served("qwen3-30b-a3b", "as_is", "auto", 738960),
    Served("qwen3-30b-a3b", "fp8_dynamic", "auto", 1042720),
)


@cache
def profile(model: str, version: str = "0.32.0", layers: int | None = None) -> ModelProfile:
    """What `analyze` makes of a config.json alone."""
    with TemporaryDirectory() as scratch:
        (Path(scratch) / "config.json").write_text(json.dumps(shortened(PUBLIC[model], layers)))
        return analyze(resolve_model(scratch), vllm_version=version, platform="cuda")


def scheme(name: str) -> Scheme:
    return Scheme(name=name, backend=None, why="a test", source="a test")


def learned_without(architecture: str) -> OverheadRow:
    """The row of vLLM 0.19, its constants from the starts of all other architectures."""
    others = [start for start in STARTS if start.architecture != architecture]
    single = [start for start in others if start.pipeline == 1]
    plain = [start for start in single if start.architecture in SAMPLED and "codellama" not in start.model]
    row = overhead_row("0.19.0", "v1")
    non_torch = {
        "alone": _mean(start.non_torch for start in single if start.tensor == 1),
        "stages": _mean([start.non_torch for start in others if start.pipeline > 1] or [row.non_torch.alone]),
        "tensor": _mean(start.non_torch for start in single if start.tensor > 1),
    }
    changes = {
        "sampler_bytes_per_logit": _mean(map(_bytes_per_logit, plain)),
        "non_torch": row.non_torch.model_copy(update=non_torch),
    }
    return row.model_copy(update=changes)


def _bytes_per_logit(start: Start) -> float:
    ends = profile(start.model).embedding
    states = 2 * BATCH.max_num_batched_tokens * ends.hidden_size
    return (start.activation * GIB - states) / (ends.vocab_size * BATCH.max_num_seqs)


def _mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)


def tokens_before_launch(start: Start, row: OverheadRow, monkeypatch: pytest.MonkeyPatch) -> int:
    """KV tokens as vLLM 0.19 would print them, from the config and the GPU alone."""
    monkeypatch.setattr(overhead_module, "overhead_row", lambda *_: row)
    found, hardware = profile(start.model), parse_hardware("h100")
    extra = overhead(found, hardware, start.layout, BATCH, "0.19.0")
    weights = stage_weights(found, scheme(start.scheme), start.layout)
    budget = int(hardware.memory_bytes * UTILIZATION)
    pools = [budget - size - more for size, more in zip(weights, extra.stage_bytes, strict=True)]
    question = KvQuestion(
        max_model_len=LENGTH,
        tensor_parallel=start.tensor,
        pipeline_parallel=start.pipeline,
        max_num_batched_tokens=BATCH.max_num_batched_tokens,
        vllm_version="0.19.0",
    )
    return printed_tokens(kv_capacity(found.structure, question, pools), "0.19.0")


def report(title: str, errors: Sequence[float]) -> float:
    """Print and return the mean absolute error."""
    sizes = [abs(error) for error in errors]
    print(f"{title}: n {len(sizes)}, mean {_mean(sizes):.3%}, worst {max(sizes):.3%}")
    return _mean(sizes)


def test_weights_are_what_vllm_loaded() -> None:
    errors = []
    for start in STARTS:
        found = max(stage_weights(profile(start.model), scheme(start.scheme), start.layout)) / GIB
        errors.append(found / start.weights - 1)
    assert report("weights, vLLM 0.19", errors) < 0.005
    assert max(map(abs, errors)) < 0.015


def test_the_cache_is_known_before_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = []
    for start in STARTS:
        found = tokens_before_launch(start, learned_without(start.architecture), monkeypatch)
        errors.append(found / start.tokens - 1)
        print(f"{start.model:20} TP{start.tensor} PP{start.pipeline} {found:>9,} {start.tokens:>9,} {errors[-1]:+.2%}")
    assert report("KV tokens before launch, vLLM 0.19, leave one architecture out", errors) < 0.03
    assert max(map(abs, errors)) < 0.05


def test_the_constants_in_use_are_those_of_all_starts() -> None:
    row, learned = overhead_row("0.19.0", "v1"), learned_without("none")
    assert row.sampler_bytes_per_logit == pytest.approx(learned.sampler_bytes_per_logit, abs=0.2)
    for name in ("alone", "stages", "tensor"):
        assert getattr(row.non_torch, name) == pytest.approx(getattr(learned.non_torch, name), abs=0.05)


def test_tokens_on_an_h200_before_launch() -> None:
    errors, batch = [], Batch(max_num_seqs=1024, max_num_batched_tokens=16384, graphs=True)
    hardware, version = parse_hardware("h200"), "0.25.1"
    for served in BASELINE:
        found = profile(served.model, version)
        extra = overhead(found, hardware, Layout(), batch, version)
        room = int(hardware.memory_bytes * 0.92) - extra.total_bytes
        room -= max(stage_weights(found, scheme(served.scheme), Layout()))
        question = KvQuestion(max_model_len=4096, kv_cache_dtype=served.kv_dtype, vllm_version=version)
        tokens = kv_capacity(found.structure, question, room).tokens
        errors.append(tokens / served.tokens - 1)
        print(f"{served.model:20} {served.scheme:12} {served.kv_dtype:5} {tokens:>9,} {errors[-1]:+.2%}")
    assert report("KV tokens before launch, H200, vLLM 0.25.1", errors) < 0.03
    assert max(map(abs, errors)) < 0.03


@pytest.mark.parametrize("line", BENCHMARKS.read_text().splitlines())
def test_blocks_of_our_own_starts(line: str) -> None:
    """Rows with `learned_from` false were predicted before they were measured, and change no constant."""
    row = json.loads(line)
    found = profile(row["model"], row["vllm"], row["layers"])
    batch = Batch(row["max_num_seqs"], row["max_num_batched_tokens"], graphs=True)
    extra = overhead(found, parse_hardware("h200"), Layout(), batch, row["vllm"])
    weights = stage_weights(found, scheme("as_is"), Layout())[0]
    question = KvQuestion(
        max_model_len=row["max_model_len"],
        max_num_batched_tokens=row["max_num_batched_tokens"],
        kv_cache_dtype=row["kv_cache_dtype"],
        vllm_version=row["vllm"],
    )
    budget = int(row["total_bytes"] * row["gpu_memory_utilization"])
    capacity = kv_capacity(found.structure, question, budget - weights - extra.total_bytes)
    place = f"{row['layers'] or 'all'} layers, {'learned from' if row['learned_from'] else 'predicted first'}"
    print(f"{row['model']:20} {place:26} {capacity.blocks:>9,} {capacity.blocks / row['num_gpu_blocks'] - 1:+.2%}")
    assert capacity.block_size == row["block_size"]
    assert capacity.blocks == pytest.approx(row["num_gpu_blocks"], rel=0.01)
    assert extra.activation[0].low <= row["activation_gib"] * GIB <= extra.activation[0].high
    assert extra.non_torch.low <= row["non_torch_gib"] * GIB <= extra.non_torch.high
