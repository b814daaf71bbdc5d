"""What transformers and vLLM refuse when they read the files, found without either."""

from autoadapter.analyze.acceptance.geometry import geometry_findings
from autoadapter.analyze.acceptance.kinds import kind_findings
from autoadapter.analyze.acceptance.quantized import quantized_findings
from autoadapter.analyze.acceptance.rope import rope_findings
from autoadapter.analyze.reading import Evidence
from autoadapter.artifacts import Finding
from autoadapter.artifacts.model_profile import AttentionTraits

__all__ = ["acceptance_findings"]


def acceptance_findings(evidence: Evidence, attention: AttentionTraits, vllm_version: str) -> tuple[Finding, ...]:
    """Blockers that name the key, its value and what the engine says. None for GGUF, whose config is written anew.

    Args:
        evidence: the model.
        attention: its attention, as the config has it.
        vllm_version: of the engine; limits of quantization differ by release.
    """
    if evidence.checkpoint.format == "gguf":
        return ()
    return (
        *kind_findings(evidence, vllm_version),
        *rope_findings(evidence),
        *geometry_findings(evidence, attention),
        *quantized_findings(evidence, vllm_version),
    )
