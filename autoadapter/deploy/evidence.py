"""What is true about a bundle, and how far: each claim is passed, failed or not_run, with a reason."""

import re
from collections.abc import Sequence
from itertools import pairwise

from autoadapter.artifacts import EngineRun, Evidence, Hardware, Status, Validation
from autoadapter.deploy.facts import GIB, Facts
from autoadapter.deploy.request import DeployRequest

_TEST = "autoadapter test"
ESSENTIAL = ("parity", "quality", "tokenizer")
"""Checks without which "the same model" is no claim: log-probabilities, loss by the scheme, token ids."""


def gather(request: DeployRequest, facts: Facts, validations: Sequence[Validation]) -> tuple[Evidence, ...]:
    """Every claim that an operator would otherwise assume."""
    return (
        _verified(request),
        _starts(facts),
        _fits(facts),
        _quality(facts),
        _weights(facts),
        _pinned(facts),
        _validated(validations),
        _smoke(facts),
    )


def _verified(request: DeployRequest) -> Evidence:
    claim = f"the served model is the same model, on vLLM {request.plan.vllm_version}"
    report = request.fresh_report
    if report is None:
        why = "there is no report" if request.report is None else "the report is about another plan or checkpoint"
        return Evidence(claim=claim, status=Status.NOT_RUN, reason=why, command=_TEST)
    counts = {status: sum(check.status is status for check in report.checks) for status in Status}
    reason = f"{report.depth} report: " + ", ".join(f"{count} {status}" for status, count in counts.items())
    status = Status.PASSED if report.passed else Status.FAILED
    gaps = [name for name in ESSENTIAL if (found := report.check(name)) is None or found.status is not Status.PASSED]
    if status is Status.PASSED and (gaps or not report.engine_runs):
        missing = f"not proven: {', '.join(gaps)}" if gaps else "no engine start is recorded"
        status, reason = Status.NOT_RUN, f"{missing}; {reason}"
    versions = {run.vllm_version for run in report.engine_runs}
    if status is Status.PASSED and versions and versions != {request.plan.vllm_version}:
        status, reason = Status.NOT_RUN, f"the report ran on vLLM {', '.join(sorted(versions))}; {reason}"
    return Evidence(claim=claim, status=status, reason=reason, command=_TEST)


def _candidate(facts: Facts) -> EngineRun | None:
    runs = facts.report.engine_runs if facts.report else ()
    return next((run for run in runs if run.role == "candidate" or run.model_path == facts.weights.path), None)


def _starts(facts: Facts) -> Evidence:
    claim, run = "vLLM starts with vllm/config.yaml and these weights", _candidate(facts)
    if run is None:
        return Evidence(claim=claim, status=Status.NOT_RUN, reason="no start is recorded", command=_TEST)
    reason = f"vLLM {run.vllm_version} answered after {run.cold_start_seconds:.0f} s on {_machine(facts)}"
    return Evidence(claim=claim, status=Status.PASSED, reason=reason, command=run.command)


def _machine(facts: Facts) -> str:
    machine = facts.report.machine if facts.report else None
    if machine is None:
        return "an unknown machine"
    return ", ".join(machine.gpus) or f"{machine.cpu} ({machine.cores} cores)"


def _fits(facts: Facts) -> Evidence:
    memory, hardware = facts.plan.memory, facts.plan.hardware
    needed = (memory.weight_bytes + memory.overhead_bytes + memory.kv_pool_bytes) / GIB
    computed = f"computed {needed:.1f} of {memory.device_bytes / GIB:.1f} GiB, {memory.kv_tokens} tokens of KV cache"
    claim, run = f"it fits {hardware.text}", _candidate(facts)
    if run is None or not _ran_on_planned_hardware(facts):
        reason = f"{computed}; it was not started on that hardware"
        return Evidence(claim=claim, status=Status.NOT_RUN, reason=reason, command=_TEST)
    measured = f"vLLM found {run.kv_cache_tokens} tokens" if run.kv_cache_tokens else "vLLM started"
    return Evidence(claim=claim, status=Status.PASSED, reason=f"{measured}; {computed}", command=run.command)


def _ran_on_planned_hardware(facts: Facts) -> bool:
    """The report's machine has the planned devices, by product name."""
    hardware = facts.plan.hardware
    if facts.report is None:
        return False
    found = facts.report.machine.gpus
    if hardware.kind == "cpu":
        return not found
    return sum(_is_product(name, hardware) for name in found) >= facts.gpus


def _is_product(product: str, hardware: Hardware) -> bool:
    """Whether `nvidia-smi` calls the planned GPU so: `h200` is "NVIDIA H200", `rtx4090` is "… RTX 4090"."""
    words = re.split(r"[ -]+", product.lower())
    pairs = {first + second for first, second in pairwise(words)}
    stated = next((int(match[1]) for word in words if (match := re.fullmatch(r"(\d+)gb", word))), None)
    right_size = stated is None or abs(stated * 1e9 - hardware.memory_bytes) < 0.15 * hardware.memory_bytes
    return right_size and hardware.name.partition("-")[0] in {*words, *pairs}


def _quality(facts: Facts) -> Evidence:
    claim, quality = "what quantization costs was measured", facts.optimized.quality
    if quality is not None:
        limits = f"{quality.delta_nll:+.4f} ± {quality.delta_nll_se:.4f} nats a token over {quality.tokens} tokens"
        change = f"perplexity {quality.perplexity_before:.3f} → {quality.perplexity_after:.3f}"
        return Evidence(
            claim=claim,
            status=Status.PASSED,
            reason=f"{change} ({limits}) on {quality.text}",
            command="autoadapter optimize",
        )
    if facts.optimized.scheme.backend is None:
        return Evidence(claim=claim, status=Status.PASSED, reason="nothing was quantized")
    reason = f"{facts.optimized.scheme.name} was applied and not compared with the original"
    return Evidence(claim=claim, status=Status.NOT_RUN, reason=reason, command="autoadapter optimize --force")


def _weights(facts: Facts) -> Evidence:
    reason = (
        f"{len(facts.weights.files)} files have the recorded sizes; the hashes are checked by the command and by --up"
    )
    command = 'cd WEIGHTS_FOLDER && sha256sum -c "$BUNDLE/weights.sha256"'
    return Evidence(claim="the weights are there", status=Status.PASSED, reason=reason, command=command)


def _pinned(facts: Facts) -> Evidence:
    claim = "the image cannot change under its name"
    if facts.image_is_pinned:
        return Evidence(claim=claim, status=Status.PASSED, reason=f"{facts.image} names a digest")
    reason = f"image is not pinned by digest: {facts.image}"
    command = "autoadapter deploy --image NAME@sha256:DIGEST"
    return Evidence(claim=claim, status=Status.NOT_RUN, reason=reason, command=command)


def _validated(validations: Sequence[Validation]) -> Evidence:
    claim = "the files are valid to their own tools"
    failed = [f"{row.tool} on {row.file}" for row in validations if row.status is Status.FAILED]
    absent = sorted({row.tool for row in validations if row.status is Status.NOT_RUN})
    passed = sum(row.status is Status.PASSED for row in validations)
    command = "autoadapter deploy --force"
    if failed:
        return Evidence(claim=claim, status=Status.FAILED, reason="; ".join(failed), command=command)
    without = f"; not installed: {', '.join(absent)}" if absent else ""
    status = Status.NOT_RUN if absent or not passed else Status.PASSED
    return Evidence(
        claim=claim, status=status, reason=f"{passed} of {len(validations)} accepted{without}", command=command
    )


def _smoke(facts: Facts) -> Evidence:
    reason = "no server is started while a bundle is written; `--up` runs it"
    command = f"python3 smoke.py --base-url {facts.client_url}"
    return Evidence(claim="a running server answers smoke.py", status=Status.NOT_RUN, reason=reason, command=command)
