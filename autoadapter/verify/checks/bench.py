"""Figures from vLLM's own benchmark client, `vllm bench serve`."""

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoadapter.artifacts import CheckResult, ServingPlan, Threshold
from autoadapter.engine.process import vllm_command
from autoadapter.engine.startup_log import last_cause
from autoadapter.errors import EngineError, MissingPartError
from autoadapter.verify.context import CheckContext
from autoadapter.verify.engines import QUIET_ENV, Role
from autoadapter.verify.judge import Measured, judged
from autoadapter.verify.scale import Scale

TIMEOUT_SECONDS = 3600.0
SPARE_TOKENS = 8
"""Room for special tokens that the server puts before a prompt."""
INSTALL = "pip install 'vllm[bench]'   (in the engine's environment)"
METRICS = ("ttft", "tpot", "itl", "e2el")
PERCENTILES = (50, 90, 99)
_ABSENT = re.compile(r"No module named '([\w.]+)'|[Pp]lease install (?:the )?[`']?(vllm\[bench\]|[\w-]+)")
RATES = ("request_throughput", "output_throughput", "total_token_throughput")


@dataclass(frozen=True)
class Shape:
    """What the benchmark sends: requests and tokens."""

    prompts: int
    input_len: int
    output_len: int
    concurrency: int
    why: str
    """Where the numbers come from, for the report."""


class BenchCheck:
    """Throughput and latency on random prompts. The numbers are reported; only a lost request fails."""

    name = "bench"
    title = "Bench: throughput and latency by vllm bench serve"
    needs = (Role.CANDIDATE,)

    def run(self, context: CheckContext) -> CheckResult:
        """Run the client once against the candidate."""
        base_url = context.client(Role.CANDIDATE).base_url
        context.progress("bench: vllm bench serve")
        shape = bench_shape(context.scale, context.request.plan, context.client(Role.CANDIDATE).max_model_len())
        return self._verdict(run_bench(context, bench_arguments(context, base_url, shape)), shape)

    def _verdict(self, figures: dict[str, Any], shape: Shape) -> CheckResult:
        measured: Measured = {
            "prompts": shape.prompts,
            "input_len": shape.input_len,
            "output_len": shape.output_len,
            "max_concurrency": figures["max_concurrency"],
            "shape": shape.why,
            "completed": figures["completed"],
            "failed": figures["failed"],
            "duration_seconds": figures["duration"],
            **{name: figures[name] for name in RATES},
            **{f"p{p}_{name}_ms": figures[f"p{p}_{name}_ms"] for name in METRICS for p in PERCENTILES},
        }
        source = "every request of the benchmark must complete; speed itself is reported, not judged"
        thresholds = [
            Threshold(name="completed", limit=shape.prompts, direction="==", source=source),
            Threshold(name="failed", limit=0, direction="==", source=source),
        ]
        summary = (
            f"{figures['output_throughput']:.1f} output tokens/s and {figures['request_throughput']:.2f} requests/s; "
            f"TTFT p50 {figures['p50_ttft_ms']:.0f} ms, TPOT p50 {figures['p50_tpot_ms']:.1f} ms "
            f"({shape.prompts} requests of {shape.input_len} tokens in and {shape.output_len} out, "
            f"{figures['max_concurrency']} at once; {shape.why})."
        )
        return judged(self, measured, thresholds, summary)


def bench_shape(scale: Scale, plan: ServingPlan, room: int) -> Shape:
    """The plan's workload, cut to what a request may hold; at a depth with a shape of its own, that one.

    Args:
        scale: sizes of the depth.
        plan: whose workload it is.
        room: the server's `max-model-len`, tokens of prompt and answer together.
    """
    wanted, why = scale.bench_workload or plan.workload, "smaller than the plan's workload"
    output_len = min(wanted.output_len, room // 2)
    input_len = min(wanted.input_len, room - output_len - SPARE_TOKENS)
    if scale.bench_workload is None:
        whole = (input_len, output_len) == (wanted.input_len, wanted.output_len)
        why = "the plan's workload" if whole else "the plan's workload, cut to max-model-len"
    return Shape(max(scale.bench_prompts, wanted.concurrency), input_len, output_len, wanted.concurrency, why)


def bench_arguments(context: CheckContext, base_url: str, shape: Shape) -> list[str]:
    """Arguments after `vllm`; random tokens, fixed seed, every request of the same size."""
    request = context.request
    options = {
        "--backend": "openai",
        "--base-url": base_url,
        "--model": request.plan.served_name,
        "--served-model-name": request.plan.served_name,
        "--tokenizer": request.optimized.model_path,
        "--dataset-name": "random",
        "--random-input-len": str(shape.input_len),
        "--random-output-len": str(shape.output_len),
        "--num-prompts": str(shape.prompts),
        "--max-concurrency": str(shape.concurrency),
        "--seed": "0",
        "--percentile-metrics": ",".join(METRICS),
        "--metric-percentiles": ",".join(map(str, PERCENTILES)),
        "--result-dir": str(request.logs),
        "--result-filename": "verify-bench.json",
    }
    flags = ["--ignore-eos", "--save-result", "--disable-tqdm"]
    flags += ["--trust-remote-code"] if request.trust_remote_code else []
    return ["bench", "serve", *(part for pair in options.items() for part in pair), *flags]


def run_bench(context: CheckContext, arguments: list[str]) -> dict[str, Any]:
    """Run the benchmark client and read its result file.

    Raises:
        MissingPartError: a package that the client needs is absent.
        EngineError: the client failed for another reason.
    """
    log = context.request.logs / "verify-bench.log"
    result = context.request.logs / "verify-bench.json"
    result.unlink(missing_ok=True)
    command = vllm_command(context.request.engine, *arguments)
    with log.open("wb") as sink:
        environment = {**os.environ, **QUIET_ENV, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        try:
            code = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT,
                env=environment, timeout=TIMEOUT_SECONDS, check=False,
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            raise EngineError(f"vllm bench serve took longer than {TIMEOUT_SECONDS:.0f} s.", log=log) from None
    if code == 0 and result.is_file():
        figures: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
        return figures
    part = absent_part(log)
    if part:
        raise MissingPartError(part, "vllm bench serve", install=INSTALL)
    raise EngineError(f"vllm bench serve ended with exit code {code}.", cause=last_cause(log), log=log)


def absent_part(log: Path) -> str | None:
    """The package that the client's log says is missing, None when it says nothing of the kind."""
    match = _ABSENT.search(log.read_text(errors="replace", encoding="utf-8"))
    return (match[1] or match[2]) if match else None
