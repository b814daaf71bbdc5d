"""`autoadapter deploy`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autoadapter.cli.common import pipeline, relative, say_if_skipped
from autoadapter.cli.options import (
    EngineArgOpt,
    EngineOpt,
    ForceOpt,
    HostOpt,
    ImageOpt,
    JsonOpt,
    PortOpt,
    SiteOpt,
    TargetOpt,
    WorkspaceOpt,
)
from autoadapter.cli.output import Out

if TYPE_CHECKING:
    from autoadapter.artifacts import Deployment, LocalServer
    from autoadapter.workspace import Workspace

UpOpt = Annotated[bool, typer.Option("--up", help="Start the bundle here as a process group, wait, smoke-test it.")]
DownOpt = Annotated[bool, typer.Option("--down", help="Stop the server that --up started.")]
StatusOpt = Annotated[bool, typer.Option("--status", help="Tell whether it runs and answers.")]
UntestedOpt = Annotated[
    bool, typer.Option("--allow-untested", help="Bundle without a passed report; the bundle says so.")
]
TimeoutOpt = Annotated[float, typer.Option(help="Seconds to wait for readiness with --up.")]


def deploy(
    workspace: WorkspaceOpt = None,
    target: TargetOpt = None,
    up: UpOpt = False,
    down: DownOpt = False,
    status: StatusOpt = False,
    host: HostOpt = "127.0.0.1",
    port: PortOpt = 8000,
    image: ImageOpt = None,
    engine_arg: EngineArgOpt = None,
    site: SiteOpt = None,
    allow_untested: UntestedOpt = False,
    timeout: TimeoutOpt = 900.0,
    engine_python: EngineOpt = None,
    force: ForceOpt = False,
    json: JsonOpt = False,
) -> None:
    """Write the bundle: vLLM config, container file, compose, Kubernetes manifests, smoke test, evidence.

    Examples:
      autoadapter deploy

      autoadapter deploy --target local --up --port 8100

      autoadapter deploy --status

      autoadapter deploy --down
    """
    from autoadapter.errors import UserError
    from autoadapter.workspace import current_workspace

    out = Out(as_json=json)
    if up + down + status > 1:
        raise UserError("--up, --down and --status exclude one another.", hint="autoadapter deploy --status")
    opened = current_workspace(workspace)
    out.talk(
        f"model {opened.mark.model.name}" + (f" at {opened.mark.model.revision}" if opened.mark.model.revision else "")
    )
    if down or status:
        _lifecycle(out, opened, stop=down)
        return
    bundle = _bundle(
        out,
        opened,
        quiet=up,
        targets=_targets(target, up),
        host=host,
        port=port,
        image=image,
        engine_args=engine_arg,
        site=site,
        require_passed=not allow_untested,
        engine_python=engine_python,
        force=force,
    )
    if up:
        _up(out, bundle, engine_python, host, port, timeout)


def _targets(names: list[str] | None, up: bool) -> object:
    from autoadapter.artifacts import Target
    from autoadapter.errors import UserError
    from autoadapter.options import choose

    chosen = tuple(choose(Target, name, "target") for name in names) if names else None
    if up and chosen and Target.LOCAL not in chosen:
        raise UserError("--up starts the local target only.", hint="autoadapter deploy --target local --up")
    return chosen


def _bundle(out: Out, opened: "Workspace", *, quiet: bool, **settings: Any) -> Path:
    from autoadapter.options import parse_pairs

    engine_args = parse_pairs(tuple(settings.pop("engine_args") or ()))
    site = parse_pairs(tuple(settings.pop("site") or ()), "--site")
    with pipeline(opened, out, "deploy", engine_args=engine_args, site=site, **settings) as stages:
        if engine_args:
            stages.replan()
            stages.optimize()
        outcome = stages.deploy()
    say_if_skipped(out, outcome)
    if out.as_json and not quiet:
        out.document(outcome.artifact.model_dump(mode="json"))
    elif not out.as_json:
        show_bundle(out, outcome.artifact, outcome.path.parent)
    return outcome.path.parent


def show_bundle(out: Out, deployment: "Deployment", folder: Path) -> None:
    """What was written, and how far each claim is true."""
    out.heading(f"Bundle: {relative(folder)}  ({len(deployment.files)} files)")
    rows = [(row.claim, row.status.value, row.reason) for row in deployment.evidence]
    out.table(("claim", "status", "because"), rows, status_column=1)
    out.facts(list(deployment.commands.items()))
    out.findings(deployment.findings)


def _up(out: Out, bundle: Path, engine_python: Path | None, host: str, port: int, timeout: float) -> None:
    from autoadapter import deploy as room
    from autoadapter.engine import find_engine

    engine = find_engine(engine_python, needed_for="`deploy --up`")
    with out.progress("up") as progress:
        server = room.up(bundle, engine=engine, host=host, port=port, progress=progress, timeout=timeout)
    _show_server(out, server)


def _show_server(out: Out, server: "LocalServer") -> None:
    if out.as_json:
        out.document(server.model_dump(mode="json"))
        return
    out.heading(f"{server.served_name} answers at http://{server.host}:{server.port}")
    out.facts([("process group", str(server.process_group)), ("log", server.log)])
    out.next_step("autoadapter deploy --down")


def _lifecycle(out: Out, opened: "Workspace", *, stop: bool) -> None:
    from autoadapter import deploy as room

    bundle = opened.plan_folder / "bundle"
    answer = room.down(bundle) if stop else room.status(bundle)
    if out.as_json:
        out.document(answer.model_dump(mode="json"))
    else:
        out.line(answer.sentence)
