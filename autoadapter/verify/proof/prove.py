"""Proves that vLLM computes what transformers computes: log-probabilities of the whole vocabulary, in float32."""

import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoadapter.engine.forks import JobEnd
from autoadapter.engine.target import EngineTarget
from autoadapter.progress import Progress, silent
from autoadapter.verify.proof.cases import Cases, usual_cases
from autoadapter.verify.proof.causes import lacking_kernel
from autoadapter.verify.proof.package import Plugin, borrowed_imports, open_plugin
from autoadapter.verify.proof.result import GATE, CaseResult, ModelImpl, ProofResult, ProofStatus
from autoadapter.verify.proof.servers import Servers

CACHE_BLOCKS = 64
BACKEND = "vllm.model_executor.models.transformers"


@dataclass(frozen=True)
class Claim:
    """What is to be proved: that a checkpoint is served right this way."""

    clone: Path
    """A checkpoint small enough for float32 on one core, with weights that make every path matter."""
    model_impl: ModelImpl = "vllm"
    plugin: Path | None = None
    """Project or unpacked wheel of the code that is to answer."""
    carries_over: bool = False
    """The plugin may import the reference's own modules, for blocks that it carries over."""
    trust_remote_code: bool = False
    reference: Path | None = None
    """The checkpoint that transformers computes; None: the same one."""
    cases: Cases | None = None
    """None: `usual_cases` of the clone's config."""


def prove(claim: Claim, engine: EngineTarget, folder: Path, *, progress: Progress = silent) -> ProofResult:
    """Prove one claim in processes of its own. For many claims, keep one `Servers` and call `prove_on`.

    Args:
        claim: what is to be proved.
        engine: the vLLM to prove it on.
        folder: for logs.
        progress: told what runs.

    Raises:
        WorkerError: the interpreter does not import vLLM or transformers.
        UserError: the plugin has no entry point.
    """
    progress("importing vLLM")
    with Servers(engine, folder) as servers:
        return prove_on(servers, claim, progress=progress)


def prove_on(servers: Servers, claim: Claim, *, progress: Progress = silent) -> ProofResult:
    """Prove a claim on warm servers; see `prove`."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=servers.scratch) as scratch:
        found = _Attempt(servers, claim, Path(scratch), progress).run()
    return found.model_copy(update={"seconds": round(time.monotonic() - began, 2), "versions": servers.versions})


class _Attempt:
    """One claim on its way through both processes."""

    def __init__(self, servers: Servers, claim: Claim, scratch: Path, progress: Progress) -> None:
        self.servers, self.claim, self.scratch, self.progress = servers, claim, scratch, progress
        config = json.loads((claim.clone / "config.json").read_text(encoding="utf-8"))
        self.cases = claim.cases or usual_cases(config)
        self.name = f"{claim.clone.name}-{claim.model_impl}{'-plugin' if claim.plugin else ''}"
        self.plugin: Plugin | None = None

    def run(self) -> ProofResult:
        """Engine, checks of who answered, reference."""
        if self.claim.plugin is not None:
            self.plugin = open_plugin(self.claim.plugin, self.scratch / "plugin")
            fault = self.fault_in_source(self.plugin)
            if fault:
                return self.ended(ProofStatus.FAILED, fault)
        self.progress(f"{self.claim.clone.name}: asking vLLM")
        request = self.request()
        told = self.servers.engine("ask", request, log=f"{self.name}.engine.log")
        if told.result is None:
            return self.engine_failed(told)
        stranger = self.stranger(told.result)
        if stranger:
            return self.ended(ProofStatus.FAILED, stranger, log=told.log)
        self.progress(f"{self.claim.clone.name}: asking transformers")
        compared = self.servers.reference(
            "compare",
            {**request, "model": str(self.claim.reference or self.claim.clone), "generated": told.result["generated"]},
            log=f"{self.name}.reference.log",
        )
        if compared.result is None:
            return self.ended(ProofStatus.FAILED, f"the reference failed: {compared.error}", log=compared.log)
        return self.judge(told, compared.result)

    def fault_in_source(self, plugin: Plugin) -> str | None:
        """What disqualifies the plugin before it runs, if anything."""
        try:
            borrowed = borrowed_imports(plugin.folder / plugin.package)
        except SyntaxError as error:
            return f"the plugin does not parse: {Path(error.filename or '').name}:{error.lineno} {error.msg}"
        if borrowed and not self.claim.carries_over:
            return f"the plugin uses others' model code: {borrowed[0]}"
        return None

    def request(self) -> dict[str, Any]:
        """What both sides are asked."""
        return {
            "model": str(self.claim.clone),
            "model_impl": self.claim.model_impl,
            "plugin": str(self.plugin.folder) if self.plugin else None,
            "plugin_name": self.plugin.entry_point if self.plugin else None,
            "trust_remote_code": self.claim.trust_remote_code,
            "max_model_len": self.cases.max_model_len,
            "chunk": self.cases.chunk,
            "rounds": self.cases.rounds,
            "decode": self.cases.decode,
            "scratch": str(self.servers.scratch / "vllm"),
            "tensors": str(self.scratch / "engine.safetensors"),
            "engine_args": {"num_gpu_blocks_override": CACHE_BLOCKS},
        }

    def stranger(self, result: dict[str, Any]) -> str | None:
        """What is wrong with the class that answered, if anything."""
        module = str(result["module"])
        if self.plugin and module.partition(".")[0] != self.plugin.package:
            return f"{module}:{result['name']} answered, not the plugin"
        if self.claim.model_impl == "vllm" and module.startswith(BACKEND):
            return f"vLLM's Transformers backend answered ({result['name']})"
        return None

    def engine_failed(self, told: JobEnd) -> ProofResult:
        """A missing kernel proves nothing; anything else is a failure."""
        assert told.error is not None
        lacking = lacking_kernel(told.error, self.plugin.folder if self.plugin else None)
        if lacking:
            return self.ended(ProofStatus.NOT_RUN, lacking, log=told.log)
        return self.ended(ProofStatus.FAILED, str(told.error), log=told.log)

    def ended(self, status: ProofStatus, reason: str, log: Path | None = None) -> ProofResult:
        """A verdict without numbers."""
        return ProofResult(
            status=status,
            model_impl=self.claim.model_impl,
            reason=reason,
            verdict="unprovable_here" if status is ProofStatus.NOT_RUN else "",
            log=str(log or ""),
        )

    def judge(self, told: JobEnd, measured: dict[str, Any]) -> ProofResult:
        """The verdict over the differences."""
        assert told.result is not None
        names = [name for name, _ in self.cases.batches]
        cases = tuple(_case(name, rows) for name, rows in zip(names, measured["rounds"], strict=True))
        numbers = [number for case in cases for number in (case.prefill, case.decode)]
        rows = [row for batch in measured["rounds"] for row in batch]
        worst = None if None in numbers else max(number for number in numbers if number is not None)
        failed = [case for case in cases if not case.passed]
        status = ProofStatus.WRONG if failed else ProofStatus.PROVEN
        reason = _difference(failed[0]) if failed else ""
        if not measured["finite"]:
            status, reason = ProofStatus.FAILED, "the reference computes infinite or undefined log-probabilities"
        return ProofResult(
            status=status,
            model_impl=self.claim.model_impl,
            reason=reason,
            max_abs_logprob_diff=worst,
            cases=cases,
            answered_by=f"{told.result['module']}:{told.result['name']}",
            argmax_agreement=min(row["argmax_agreement"] for row in rows),
            spread=measured["spread"],
            log=str(told.log),
        )


def _case(name: str, rows: list[dict[str, Any]]) -> CaseResult:
    phases = {
        phase: None if any(row[phase] is None for row in rows) else max(row[phase] for row in rows)
        for phase in ("prefill", "decode")
    }
    wrong = [row["first_wrong"] for row in rows if row["first_wrong"] is not None]
    return CaseResult(name=name, first_wrong=min(wrong, default=None), **phases)


def _difference(case: CaseResult) -> str:
    """Where and by how much the first failing case is off."""
    parts = [
        f"{phase} {'not a number' if number is None else f'{number:.2g}'}"
        for phase, number in (("prefill", case.prefill), ("decode", case.decode))
        if number is None or number > GATE
    ]
    return f"log-probabilities differ in case {case.name}: {', '.join(parts)}, from position {case.first_wrong} on"
