"""Joins `analyze`, `probe` and `generate` where a route needs model code: what the plugin is rendered from."""

from typing import TYPE_CHECKING, Literal

from autoadapter import analyze as analyze_room
from autoadapter.artifacts import Route, ServingPlan
from autoadapter.engine.target import interpreter
from autoadapter.lazy import on_first_use
from autoadapter.options import Options
from autoadapter.progress import Progress
from autoadapter.workspace import StageRecords, Workspace

if TYPE_CHECKING:
    from autoadapter import generate as generate_room
    from autoadapter import probe as probe_room
else:
    generate_room = on_first_use("autoadapter.generate")
    probe_room = on_first_use("autoadapter.probe")


def model_code(
    workspace: Workspace, options: Options, progress: Progress, plan: ServingPlan
) -> "generate_room.ModelCode | None":
    """What the model computes, fitted on a tiny clone; None where the route needs no code of AutoAdapter's own.

    Raises:
        UnsupportedModelError: a block of the model is not explained; what is known of it lies in `probe/`.
    """
    if plan.route is not Route.GENERATED:
        return None
    place, ref = workspace.root / "probe", workspace.mark.model
    config = analyze_room.read_config(ref)
    trusted = options.trust_remote_code or StageRecords(workspace.root).is_fresh("trust", {"remote_code": True})
    spec = probe_room.probe(
        analyze_room.copy_code(ref, place / "code") if trusted else None,
        config,
        interpreter=interpreter(options.engine_python),
        out=place,
        progress=progress,
    )
    return generate_room.ModelCode(spec, config)


def told_route(told: StageRecords, platform: str) -> Literal["generated"] | None:
    """The route that `analyze` was asked for, which later stages keep."""
    asked = told.is_fresh("platform", {"platform": platform, "model_impl": "generated"})
    return "generated" if asked else None
