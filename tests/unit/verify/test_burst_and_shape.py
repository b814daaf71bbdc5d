"""How large the burst is and what the benchmark sends."""

import resource
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from autoadapter.artifacts import Depth, Parallelism, Status, Workload
from autoadapter.engine.client import StreamedAnswer
from autoadapter.verify.checks import load
from autoadapter.verify.checks.bench import bench_arguments, bench_shape
from autoadapter.verify.checks.load import MOST_STREAMS, SHORT_TOKENS, LoadCheck, burst, most_streams, seats_of
from autoadapter.verify.context import CheckContext
from autoadapter.verify.scale import SCALES
from tests.unit.verify import verify_samples

COUNTS = {"server_finished": 8.0, "still_running": 0.0, "preemptions": 0.0}
WHOLE = StreamedAnswer(200, "text", "stop", True, 0.1, 0.2)


@pytest.mark.parametrize("seats", [1, 8, 32, 64, 256, 512, 1024, MOST_STREAMS - 1])
@pytest.mark.parametrize("depth", Depth)
def test_a_burst_is_larger_than_the_seats(depth: Depth, seats: int) -> None:
    count, tokens = burst(SCALES[depth], seats, MOST_STREAMS)
    assert seats < count <= MOST_STREAMS
    assert tokens == (SHORT_TOKENS if count > SCALES[depth].load_cap else SCALES[depth].load_tokens)


def test_a_burst_that_fits_into_the_seats_proves_nothing() -> None:
    result = LoadCheck()._verdict([WHOLE] * 8, 8, 1.0, dict(COUNTS))
    assert result.status is Status.FAILED
    assert "requests is 8, must be at least 9" in result.reason
    assert LoadCheck()._verdict([WHOLE] * 8, 7, 1.0, dict(COUNTS)).status is Status.PASSED


def test_every_data_parallel_engine_has_its_seats() -> None:
    plan = verify_samples.plan()
    assert seats_of(plan) == 8
    assert seats_of(plan.model_copy(update={"parallelism": Parallelism(data_parallel_size=4)})) == 32
    assert seats_of(plan.model_copy(update={"settings": ()})) == load.DEFAULT_MAX_NUM_SEQS


def test_more_seats_than_this_process_can_take_is_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (load.SPARE_FILES + 8, 4096))
    assert most_streams() == 8
    request = verify_samples.request(tmp_path, tmp_path, tmp_path, None)  # type: ignore[arg-type]
    context = SimpleNamespace(request=request, client=lambda role: None)
    result = LoadCheck().run(cast(CheckContext, context))
    assert result.status is Status.NOT_RUN
    assert "8 requests at once" in result.reason


def test_open_files_without_a_limit_leave_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY,) * 2)
    assert most_streams() == MOST_STREAMS


@pytest.mark.parametrize("depth", [Depth.STANDARD, Depth.FULL])
def test_the_benchmark_sends_the_plans_workload(tmp_path: Path, depth: Depth) -> None:
    plan = verify_samples.plan().model_copy(
        update={"workload": Workload(input_len=900, output_len=100, concurrency=600)}
    )
    shape = bench_shape(SCALES[depth], plan, 2048)
    assert (shape.input_len, shape.output_len, shape.concurrency) == (900, 100, 600)
    assert shape.prompts >= 600
    assert shape.why == "the plan's workload"
    cut = bench_shape(SCALES[depth], plan, 512)
    assert cut.input_len + cut.output_len < 512
    assert "cut to max-model-len" in cut.why


def test_a_small_benchmark_says_so() -> None:
    shape = bench_shape(SCALES[Depth.SMOKE], verify_samples.plan(), 2048)
    assert (shape.input_len, shape.output_len, shape.concurrency) == (64, 32, 4)
    assert "smaller than the plan's workload" in shape.why


@pytest.mark.parametrize("trust", [True, False])
def test_the_benchmark_runs_code_of_the_checkpoint_only_when_told(tmp_path: Path, trust: bool) -> None:
    request = verify_samples.request(tmp_path, tmp_path, tmp_path, None, trust_remote_code=trust)  # type: ignore[arg-type]
    context = cast(CheckContext, SimpleNamespace(request=request))
    shape = replace(bench_shape(SCALES[Depth.SMOKE], request.plan, 2048), prompts=5, concurrency=3)
    arguments = bench_arguments(context, "http://127.0.0.1:1", shape)
    assert ("--trust-remote-code" in arguments) is trust
    assert arguments[arguments.index("--num-prompts") + 1] == "5"
    assert arguments[arguments.index("--max-concurrency") + 1] == "3"
