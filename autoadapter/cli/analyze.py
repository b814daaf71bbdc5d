"""`autoadapter analyze`."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autoadapter.cli.common import chosen_route, internal_error, pipeline, relative, say_if_skipped
from autoadapter.cli.options import (
    EngineOpt,
    FollowLinksOpt,
    ForceOpt,
    JsonOpt,
    MaxLenOpt,
    RecipesOpt,
    RemoteCodeOpt,
    RevisionOpt,
    RouteOpt,
    VllmOpt,
    WorkspaceOpt,
)
from autoadapter.cli.output import Out

if TYPE_CHECKING:
    from autoadapter.cli.analyze_view import Analysis, Detail
    from autoadapter.cli.compare import Compared
    from autoadapter.errors import AutoadapterError
    from autoadapter.workspace import Workspace

ModelsArg = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="MODEL",
        help="Folder, .gguf file, or Hub id such as org/name. Several are compared, each in a workspace of its own; "
        "the first is the current one afterwards.",
        show_default=False,
    ),
]
HardwareOpt = Annotated[
    str | None,
    typer.Option(
        "--hardware",
        metavar="NAME[:COUNT]",
        help="Where it will run: cpu, h200, h200:8, … [default: this CPU and common GPUs]",
        show_default=False,
    ),
]
UtilizationOpt = Annotated[
    float | None,
    typer.Option(
        "--gpu-memory-utilization",
        min=0.01,
        max=1.0,
        help="Share of a GPU's memory to size for. [default: vLLM's]",
        show_default=False,
    ),
]
ExplainOpt = Annotated[
    str | None,
    typer.Option("--explain", metavar="CODE", help="What a finding means and what to do; needs no model."),
]
VerboseOpt = Annotated[bool, typer.Option("--verbose", help="Notes, special tokens and where each value was read.")]
LayoutsOpt = Annotated[bool, typer.Option("--all-layouts", help="Every layout and the whole reason of each refusal.")]


def analyze(
    models: ModelsArg = None,
    workspace: WorkspaceOpt = None,
    revision: RevisionOpt = None,
    hardware: HardwareOpt = None,
    max_model_len: MaxLenOpt = None,
    gpu_memory_utilization: UtilizationOpt = None,
    engine_python: EngineOpt = None,
    vllm_version: VllmOpt = None,
    trust_remote_code: RemoteCodeOpt = False,
    follow_symlinks: FollowLinksOpt = False,
    recipes: RecipesOpt = None,
    route: RouteOpt = None,
    explain: ExplainOpt = None,
    verbose: VerboseOpt = False,
    all_layouts: LayoutsOpt = False,
    force: ForceOpt = False,
    json: JsonOpt = False,
) -> None:
    """What is this model, will it run, and what does it need? Reads configs and tensor headers, never the weights.

    For example:

      autoadapter analyze ./SmolLM2-135M-Instruct

      autoadapter analyze Qwen/Qwen3-8B --hardware h200 --max-model-len 32768

      autoadapter analyze Qwen/Qwen3-8B meta-llama/Llama-3.1-8B --json

      autoadapter analyze --explain tokenizer.eos-conflict
    """
    from autoadapter.cli.analyze_view import Detail

    out = Out(as_json=json)
    if explain is not None:
        _explain(out, explain)
        return
    names = _named(models, workspace)
    settings = {
        "hardware": hardware or "cpu",
        "common_hardware": hardware is None,
        "max_model_len": max_model_len,
        "engine_args": {"gpu-memory-utilization": gpu_memory_utilization} if gpu_memory_utilization else None,
        "engine_python": engine_python,
        "vllm_version": vllm_version,
        "trust_remote_code": trust_remote_code,
        "follow_symlinks": follow_symlinks,
        "recipes": recipes,
        "route": chosen_route(route),
        "force": force,
    }
    if len(names) > 1:
        _compare(out, names, revision, settings)
    else:
        _single(out, (names[0], revision, workspace), settings, Detail(verbose, all_layouts))


def _explain(out: Out, code: str) -> None:
    from autoadapter.findings import explain

    row = explain(code)
    if out.as_json:
        out.document(row.model_dump(mode="json"))
        return
    out.heading(f"{row.code}: {row.title}")
    out.facts([("level", " or ".join(row.levels)), ("means", row.meaning), ("do", row.remedy)])


def _named(models: list[str] | None, workspace: Path | None) -> list[str]:
    from autoadapter.errors import UserError

    by_place: dict[str, str] = {}
    for name in models or ():
        by_place.setdefault(_place(name), name)
    names = list(by_place.values())
    if not names:
        raise UserError("No model is named.", hint="autoadapter analyze MODEL   (or --explain CODE)")
    if len(names) > 1 and workspace is not None:
        raise UserError(
            f"{len(names)} models are named, and a workspace (-w or AUTOADAPTER_WORKSPACE) holds one.",
            hint="Leave -w out: each model gets a workspace of its own",
        )
    return names


def _place(name: str) -> str:
    """What tells models apart: the folder or file that a name leads to, else the Hub id."""
    path = Path(name).expanduser()
    return str(path.resolve()) if path.exists() else name


def _single(out: Out, where: tuple[str, str | None, Path | None], settings: dict[str, Any], detail: "Detail") -> None:
    from autoadapter.cli.analyze_next import generate_command
    from autoadapter.cli.analyze_view import show_analysis
    from autoadapter.pipeline import open_workspace

    model, revision, folder = where
    opened = open_workspace(*where, follow_symlinks=settings["follow_symlinks"])
    analysis = _analyze(out, opened, settings)
    error = _error(model, analysis, {**settings, "revision": revision, "workspace": folder})
    if out.as_json:
        out.document(analysis.document())
        if error:
            Out(as_json=False).error(error)
            raise typer.Exit(error.exit_code)
    else:
        show_analysis(out, analysis, detail)
        page, *others = _written(opened)
        out.line(f"Written: {relative(page)}, and beside it {' and '.join(path.name for path in others)}", style="dim")
        if error:
            raise error
    if command := generate_command(analysis, settings, opened.root):
        out.next_step(command)


def _error(model: str, analysis: "Analysis", settings: dict[str, Any]) -> "AutoadapterError | None":
    """What stands in the way of a start: no route, or no room on the hardware that was asked for."""
    from autoadapter.cli.analyze_next import again
    from autoadapter.rendering.fit import refusal

    profile, misfit = analysis.profile, analysis.misfit
    if profile.verdict.is_refused:
        return refusal(profile)
    return misfit.error(profile.ref.name, again(model, misfit, settings)) if misfit else None


def _analyze(out: Out, opened: "Workspace", settings: dict[str, Any]) -> "Analysis":
    from autoadapter.cli.analyze_view import Analysis

    with pipeline(opened, out, "analyze", **settings) as stages:
        outcome = stages.analyze()
    say_if_skipped(out, outcome, "The profile stands: model and engine are unchanged.")
    return Analysis(outcome.artifact, outcome.sizings, asked_len=settings["max_model_len"] is not None)


def _compare(out: Out, names: list[str], revision: str | None, settings: dict[str, Any]) -> None:
    from autoadapter.cli.compare import show_comparison, worst
    from autoadapter.workspace import Workspace

    compared = [_compared(out, name, revision, settings) for name in names]
    found = [one.analysis.profile.ref for one in compared if one.analysis is not None]
    if found:
        Workspace.open_for(found[0])
    if out.as_json:
        out.document([one.document() for one in compared])
        for one in compared:
            if one.analysis is not None and one.error is not None:
                Out(as_json=False).error(one.error)
    else:
        show_comparison(out, compared)
    if code := worst([one.exit_code for one in compared]):
        raise typer.Exit(code)


def _compared(out: Out, name: str, revision: str | None, settings: dict[str, Any]) -> "Compared":
    """One model; whatever goes wrong with it does not stop the others."""
    from autoadapter.cli.compare import Compared
    from autoadapter.errors import AutoadapterError
    from autoadapter.pipeline import open_workspace

    try:
        opened = open_workspace(name, revision, None, follow_symlinks=settings["follow_symlinks"])
        analysis = _analyze(out, opened, settings)
        return Compared(name, analysis, _error(name, analysis, {**settings, "revision": revision}))
    except AutoadapterError as error:
        return Compared(name, error=error)
    except Exception as error:
        if os.environ.get("AUTOADAPTER_DEBUG"):
            raise
        return Compared(name, error=internal_error(error))


def _written(opened: "Workspace") -> list[Path]:
    """The page for people first."""
    from autoadapter.artifacts import Sizing
    from autoadapter.rendering.model_section import PAGE

    return [opened.root / PAGE, opened.profile_path, opened.root / Sizing.file_name]
