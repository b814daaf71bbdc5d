"""What the target's version does to this model: quantization methods that it lacks, and known issues."""

from collections.abc import Iterator

from autoadapter.analyze.acceptance import acceptance_findings
from autoadapter.analyze.routes.conditions import holds
from autoadapter.analyze.routes.subject import Subject
from autoadapter.artifacts import Finding, Level
from autoadapter.engine.registry import Registry, known_issues

CONVERTED = ("gguf", "unknown")
"""Methods that `optimize` converts away, or that the checkpoint does not name."""
OTHER_NAMES = {"auto-round": "inc", "auto_round": "inc", "intel/auto-round": "inc"}
"""`quant_method` → vLLM's method, where its override detection maps them. Source: vLLM 0.32 quantization/inc.py."""


def version_findings(subject: Subject, registry: Registry) -> tuple[Finding, ...]:
    """Findings that depend on which vLLM is meant."""
    refused = acceptance_findings(subject.evidence, subject.traits.attention, subject.target.vllm_version)
    return (*refused, *_quantization(subject, registry), *_issues(subject))


def _quantization(subject: Subject, registry: Registry) -> Iterator[Finding]:
    traits = subject.traits.quantization
    if traits is None or traits.method in CONVERTED:
        return
    method, version = OTHER_NAMES.get(traits.method, traits.method), registry.vllm_version
    last = registry.quantization_until(method)
    if method in registry.deprecated_quantizations:
        message = f"vLLM {version} counts the quantization method {method!r} as deprecated and refuses it by default."
        hint = "Serve with --engine-arg allow-deprecated-quantization=true, or take another checkpoint."
        yield _finding("issue.quantization-deprecated", message, hint, registry)
    elif method not in registry.quantizations:
        until = f"; {last} was the last that had it" if last else ""
        message = f"vLLM {version} has no quantization method {method!r}{until}."
        hint = f"Serve with vLLM {last}, or take a checkpoint in another format." if last else NO_FORMAT
        yield _finding("issue.quantization-gone", message, hint, registry)


NO_FORMAT = "Take the unquantized checkpoint, and let `autoadapter optimize` quantize it."


def _finding(code: str, message: str, hint: str, registry: Registry) -> Finding:
    source = f"vLLM {registry.vllm_version} model_executor/layers/quantization/__init__.py"
    return Finding(code=code, level=Level.BLOCKER, message=message, hint=hint, source=source)


def _issues(subject: Subject) -> Iterator[Finding]:
    for issue in known_issues():
        if holds(issue.when, subject):
            yield Finding(
                code=issue.code, level=issue.level, message=issue.message, hint=issue.remedy, source=issue.source
            )
