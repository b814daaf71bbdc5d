"""Whether vLLM computes what transformers computes: a tiny clone, all log-probabilities, one gate."""

from autoadapter.verify.proof.cases import Cases, usual_cases
from autoadapter.verify.proof.prove import Claim, prove, prove_on
from autoadapter.verify.proof.result import GATE, CaseResult, ModelImpl, ProofResult, ProofStatus
from autoadapter.verify.proof.servers import Servers

__all__ = [
    "GATE",
    "CaseResult",
    "Cases",
    "Claim",
    "ModelImpl",
    "ProofResult",
    "ProofStatus",
    "Servers",
    "prove",
    "prove_on",
    "usual_cases",
]
