"""Figures from vLLM's own benchmark client, `vllm bench serve`."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from autoadapter.artifacts import CheckResult, Threshold
from autoadapter.engine.process import vllm_command
from autoadapter.engine.startup_log import last_cause
from autoadapter.errors import EngineError, MissingPartError
from autoadapter.verify.context import CheckContext
from autoadapter.verify.engines import QUIET_ENV, Role
from autoadapter.verify.judge import Measured, judged

TIMEOUT_SECONDS = 3600.0
INSTALL = "pip install 'vllm[bench]'   (in the engine's environment)"
METRICS = ("ttft", "tpot", "itl", "e2el")
PERCENTILES = (50, 90, 99)
_ABSENT = re.compile(r"No module named '([\w.]+)'|[Pp]lease install (?:the )?[`']?(vllm\[bench\]|[\w-]+)")
RATES = ("request_throughput", "output_throughput", "total_token_throughput")


class BenchCheck:
    """Throughput and latency on random prompts. The numbers are reported; only a lost request fails."""

    name = "bench"
    title = "Bench: throughput and latency by vllm bench serve"
    needs = (Role.CANDIDATE,)

    def run(self, context: CheckContext) -> CheckResult:
        """Run the client once against the candidate."""
        base_url = context.client(Role.CANDIDATE).base_url
        context.progress("bench: vllm bench serve")
        scale = context.scale
        room = context.client(Role.CANDIDATE).max_model_len()
        output_len = min(scale.bench_output_len, room // 2)
        input_len = min(scale.bench_input_len, room - output_len - 8)
        figures = run_bench(context, bench_arguments(context, base_url, input_len, output_len))
        return self._verdict(figures, scale.bench_prompts, input_len, output_len)

    def _verdict(self, figures: dict[str, Any], prompts: int, input_len: int, output_len: int) -> CheckResult:
        measured: Measured = {
            "prompts": prompts,
            "input_len": input_len,
            "output_len": output_len,
            "max_concurrency": figures["max_concurrency"],
            "completed": figures["completed"],
            "failed": figures["failed"],
            "duration_seconds": figures["duration"],
            **{name: figures[name] for name in RATES},
            **{f"p{p}_{name}_ms": figures[f"p{p}_{name}_ms"] for name in METRICS for p in PERCENTILES},
        }
        source = "every request of the benchmark must complete; speed itself is reported, not judged"
        thresholds = [
            Threshold(name="completed", limit=prompts, direction="==", source=source),
            Threshold(name="failed", limit=0, direction="==", source=source),
        ]
        summary = (
            f"{figures['output_throughput']:.1f} output tokens/s and {figures['request_throughput']:.2f} requests/s; "
            f"TTFT p50 {figures['p50_ttft_ms']:.0f} ms, TPOT p50 {figures['p50_tpot_ms']:.1f} ms "
            f"({prompts} requests of {input_len} tokens in and {output_len} out, {figures['max_concurrency']} at once)."
        )
        return judged(self, measured, thresholds, summary)


def bench_arguments(context: CheckContext, base_url: str, input_len: int, output_len: int) -> list[str]:
    """Arguments after `vllm`; random tokens, fixed seed, every request of the same size."""
    scale, request = context.scale, context.request
    options = {
        "--backend": "openai",
        "--base-url": base_url,
        "--model": request.plan.served_name,
        "--served-model-name": request.plan.served_name,
        "--tokenizer": request.optimized.model_path,
        "--dataset-name": "random",
        "--random-input-len": str(input_len),
        "--random-output-len": str(output_len),
        "--num-prompts": str(scale.bench_prompts),
        "--max-concurrency": str(scale.bench_concurrency),
        "--seed": "0",
        "--percentile-metrics": ",".join(METRICS),
        "--metric-percentiles": ",".join(map(str, PERCENTILES)),
        "--result-dir": str(request.logs),
        "--result-filename": "verify-bench.json",
    }
    flags = ["--ignore-eos", "--save-result", "--disable-tqdm"]
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
        figures: dict[str, Any] = json.loads(result.read_text())
        return figures
    part = absent_part(log)
    if part:
        raise MissingPartError(part, "vllm bench serve", install=INSTALL)
    raise EngineError(f"vllm bench serve ended with exit code {code}.", cause=last_cause(log), log=log)


def absent_part(log: Path) -> str | None:
    """The package that the client's log says is missing, None when it says nothing of the kind."""
    match = _ABSENT.search(log.read_text(errors="replace"))
    return (match[1] or match[2]) if match else None
