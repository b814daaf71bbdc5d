"""What `optimize` made and what it cost: `optimized.json`."""

from typing import ClassVar

from autoadapter.artifacts.base import Artifact, Frozen
from autoadapter.artifacts.finding import Finding
from autoadapter.artifacts.serving_plan import Scheme


class StepRecord(Frozen):
    """One conversion or quantization, as it ran."""

    name: str
    backend: str
    tool: str
    """Package and version that did the work: `llmcompressor 0.14.0.1`."""
    seconds: float
    peak_rss_bytes: int
    command: str
    """The line that repeats it."""


class QualityDelta(Frozen):
    """Perplexity on held-out text before and after, measured with transformers in one process."""

    text: str
    """Name of the held-out text."""
    text_sha256: str
    tokens: int
    perplexity_before: float
    perplexity_after: float
    delta_nll: float
    """Mean per-token difference of negative log-likelihood, nats; positive is worse."""
    delta_nll_se: float
    """Standard error of `delta_nll` over tokens."""


class OptimizedModel(Artifact):
    """A checkpoint that the target vLLM loads."""

    file_name: ClassVar[str] = "optimized.json"
    stage: ClassVar[str] = "optimize"

    plan_digest: str
    scheme: Scheme
    model_path: str
    """Folder to serve."""
    reference_path: str
    """Folder of the unquantized safetensors checkpoint: what the served model is compared with."""
    bytes_before: int
    bytes_after: int
    files: tuple[tuple[str, int, str], ...]
    """Name, bytes and SHA-256 of each file in `model_path`."""
    steps: tuple[StepRecord, ...]
    quality: QualityDelta | None
    """None only when nothing was quantized."""
    findings: tuple[Finding, ...]
