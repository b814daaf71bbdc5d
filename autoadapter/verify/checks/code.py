"""Rendered model code: the tiny clone that it was fitted on answers through vLLM as through transformers."""

from autoadapter.artifacts import CheckResult, Route, Threshold
from autoadapter.verify.context import CheckContext
from autoadapter.verify.engines import Role
from autoadapter.verify.judge import Measured, failed, judged, not_run
from autoadapter.verify.proof import GATE, Claim, ProofResult, ProofStatus, prove

CLONE = "probe/clone"
"""In the workspace: the clone that `generate` fitted the code on."""
SOURCE = "float32 on one core: right code measured 2e-6 to 6e-4 over 80 architectures, wrong answers at least 0.1"


class CodeCheck:
    """Full log-probabilities of prefill, decode, unequal batch, chunked prefill and window edges."""

    name = "code"
    title = "Model code: vLLM computes the clone as the reference does"
    route = Route.GENERATED
    needs: tuple[Role, ...] = ()

    def run(self, context: CheckContext) -> CheckResult:
        """Prove the plugin on the clone, beside whatever server runs."""
        request = context.request
        clone = (request.workspace or request.folder) / CLONE
        if not clone.is_dir():
            return not_run(self, f"there is no clone at {clone}; `autoadapter generate --force` makes it")
        claim = Claim(clone, plugin=request.adapter / "plugin", trust_remote_code=request.trust_remote_code)
        return self.judge(prove(claim, request.engine, request.logs, progress=context.progress))

    def judge(self, proof: ProofResult) -> CheckResult:
        """The check's verdict on a proof."""
        if proof.status is ProofStatus.NOT_RUN:
            return not_run(self, proof.reason)
        if proof.status is ProofStatus.FAILED:
            return failed(self, proof.reason)
        measured: Measured = {
            "max_abs_logprob_diff": proof.max_abs_logprob_diff,
            "answered_by": proof.answered_by,
            "argmax_agreement": proof.argmax_agreement,
            "cases": {case.name: [case.prefill, case.decode] for case in proof.cases},
        }
        gate = Threshold(name="max_abs_logprob_diff", limit=GATE, direction="<=", source=SOURCE)
        worst = proof.max_abs_logprob_diff or 0.0
        summary = f"{proof.answered_by} is within {worst:.1e} of transformers over the whole vocabulary."
        return judged(self, measured, [gate], summary)
