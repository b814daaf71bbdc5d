"""What the stage is asked."""

from dataclasses import dataclass
from pathlib import Path

from autoadapter.artifacts import ModelProfile, ServingPlan


@dataclass(frozen=True)
class OptimizeRequest:
    """Everything `optimize` needs to know."""

    profile: ModelProfile
    plan: ServingPlan
    reference_folder: Path
    """Where a converted checkpoint is kept, shared by all plans of the model. Not made for safetensors sources."""
    folder: Path
    """The plan's `optimized/`, under its final name."""
    logs: Path
    python: Path
    """Interpreter with torch, transformers, gguf and accelerate: the engine's."""
    calibration: Path | None = None
    """The user's calibration text; None takes the bundled one."""
    samples: int = 64
    trust_remote_code: bool = False
