"""What the `test` stage is asked to do."""

from dataclasses import dataclass
from pathlib import Path

from autoadapter.artifacts import Depth, ModelProfile, OptimizedModel, ServingPlan, Sizing
from autoadapter.engine import EngineTarget

AS_IS = "as_is"


@dataclass(frozen=True)
class VerifyRequest:
    """Everything that one run of the stage reads and where it writes."""

    profile: ModelProfile
    plan: ServingPlan
    optimized: OptimizedModel
    adapter: Path
    """Folder that `generate` rendered: `vllm/config.yaml`, `vllm/env`, `tokenizer/tokenizer_adapter.py`."""
    engine: EngineTarget
    depth: Depth
    folder: Path
    """Where `report.json` and `report.html` go."""
    logs: Path
    only: tuple[str, ...] = ()
    """Names of the checks to run; empty means all."""
    test_cases: tuple[str, ...] = ()
    """The user's own prompts."""
    workspace: Path | None = None
    """What `-w` names in the commands that repeat a check; None means `folder`."""
    trust_remote_code: bool = False
    """Whether transformers may run code that the checkpoint brings along; the server follows the plan."""

    sizing: Sizing | None = None
    """What `analyze` sized, for the report's section on the model."""

    @property
    def unchanged(self) -> bool:
        """Whether the checkpoint that will be served is the reference itself."""
        same = Path(self.optimized.model_path) == Path(self.optimized.reference_path)
        return self.optimized.scheme.name == AS_IS or same

    @property
    def served_dtype(self) -> str:
        """The dtype the engine computes in: the plan's `dtype`, else what analysis expects of vLLM's `auto`."""
        planned = self.plan.setting("dtype")
        return self.profile.memory.served_dtype if planned in (None, "auto") else str(planned)
