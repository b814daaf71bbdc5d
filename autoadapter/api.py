"""The five stages as methods, on the same code as the commands.

from autoadapter import AutoModelAdapter

adapter = AutoModelAdapter(progress=print)
info = adapter.analyze_model(model_path="./SmolLM2-135M-Instruct", output_dir="out")
path = adapter.generate_adapter(model_info=info, output_dir="out", optimization_strategy="balanced")
adapter.optimize_adapter(adapter_path=path)
report = adapter.test_adapter(adapter_path=path, test_cases=["The capital of France is"])
bundle = adapter.deploy_adapter(adapter_path=path, engine_args={"port": 8100})
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autoadapter.artifacts import (
    Deployment,
    Depth,
    ModelProfile,
    OptimizedModel,
    ServingPlan,
    Strategy,
    Target,
    VerificationReport,
)
from autoadapter.errors import UserError, WorkspaceError
from autoadapter.options import Options, Scalar, choose
from autoadapter.pipeline import Pipeline, open_workspace
from autoadapter.progress import Progress, silent
from autoadapter.workspace import Workspace

SITE_ARGS = ("host", "port", "image")
"""Keys of `engine_args` that say where the server listens and runs, not how the engine computes."""


class AutoModelAdapter:
    """From a model to a proven deployment bundle. Every method raises `autoadapter.errors.AutoadapterError`."""

    def __init__(self, *, progress: Progress = silent, **options: Any) -> None:
        """Set what holds for every stage.

        Args:
            progress: receives one line at a time from long work.
            options: fields of `autoadapter.options.Options`, such as `engine_python` or `trust_remote_code`.
        """
        self._options = Options.model_validate(options)
        self._progress = progress

    def analyze_model(
        self, model_path: str | Path, *, revision: str | None = None, output_dir: str | Path | None = None
    ) -> ModelProfile:
        """What a folder, a `.gguf` file or a Hub id is, and whether it runs. Writes `profile.json`."""
        folder, links = Path(output_dir) if output_dir else None, self._options.follow_symlinks
        workspace = open_workspace(str(model_path), revision, folder, follow_symlinks=links)
        with workspace.lock():
            return self._pipeline(workspace).analyze().artifact

    def generate_adapter(
        self, model_info: ModelProfile, output_dir: str | Path, optimization_strategy: str = "balanced"
    ) -> Path:
        """Plan the deployment and render the adapter below `output_dir`. Returns the adapter's folder."""
        workspace = Workspace.open_for(model_info.ref, Path(output_dir))
        pipeline = self._pipeline(workspace, strategy=choose(Strategy, optimization_strategy, "strategy"))
        with workspace.lock():
            pipeline.analyze()
            return pipeline.generate().path.parent / "adapter"

    def optimize_adapter(self, adapter_path: str | Path, *, calibration: str | Path | None = None) -> OptimizedModel:
        """Convert and quantize as the adapter's plan says."""
        workspace = _workspace_of(Path(adapter_path))
        with workspace.lock():
            return self._pipeline(workspace, calibration=calibration).optimize().artifact

    def test_adapter(
        self, adapter_path: str | Path, test_cases: Sequence[str] = (), *, depth: str = "smoke"
    ) -> VerificationReport:
        """Prove the adapter on a real engine; optimizes first where that has not been done."""
        workspace = _workspace_of(Path(adapter_path))
        pipeline = self._pipeline(workspace, test_cases=tuple(test_cases), depth=choose(Depth, depth, "depth"))
        with workspace.lock():
            pipeline.optimize()
            return pipeline.test().artifact

    def deploy_adapter(
        self,
        adapter_path: str | Path,
        engine_args: Mapping[str, Scalar] | None = None,
        *,
        targets: Sequence[str] = ("local", "compose", "kubernetes"),
    ) -> Deployment:
        """Write the bundle.

        Args:
            adapter_path: what `generate_adapter` returned.
            engine_args: `host`, `port` and `image` say where it runs. Any other key is a `vllm serve` option and
                makes another plan: its bundle says that this plan was not tested.
            targets: `local`, `compose`, `kubernetes`.
        """
        workspace = _workspace_of(Path(adapter_path))
        given = {name.replace("-", "_"): value for name, value in (engine_args or {}).items()}
        site = {name: given.pop(name) for name in SITE_ARGS if name in given}
        chosen = tuple(choose(Target, target, "target") for target in targets)
        pipeline = self._pipeline(workspace, targets=chosen, engine_args=given, require_passed=not given, **site)
        with workspace.lock(), workspace.plan_on_trial():
            if given:
                pipeline.replan()
                pipeline.optimize()
            return pipeline.deploy().artifact

    def _pipeline(self, workspace: Workspace, **changes: Any) -> Pipeline:
        settings = {
            **self._options.model_dump(),
            **{name: value for name, value in changes.items() if value is not None},
        }
        return Pipeline(workspace, Options.model_validate(settings), self._progress)


def _workspace_of(adapter: Path) -> Workspace:
    """The workspace that holds an adapter's folder, with that adapter's plan made current."""
    folder = adapter.absolute()
    plan_folder = folder if (folder / ServingPlan.file_name).exists() else folder.parent
    if not (plan_folder / ServingPlan.file_name).exists():
        raise UserError(f"{adapter} is not an adapter that generate_adapter wrote: there is no plan beside it.")
    workspace = Workspace(plan_folder.parent.parent)
    if workspace.root / "plans" != plan_folder.parent:
        raise WorkspaceError(
            f"{adapter} lies outside a workspace.", hint="Use the folder that generate_adapter returned."
        )
    workspace.adopt_plan(ServingPlan.read(plan_folder / ServingPlan.file_name))
    return workspace
