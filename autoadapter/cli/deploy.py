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

    For example:

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
    model = opened.mark.model
    revision = f" at {model.revision}" if model.revision else ""
    out.talk(f"model {model.name}{revision} in {relative(opened.root)}")
    if down or status:
        _lifecycle(out, opened, stop=down)
        return
    if up:
        _require_stopped(opened)
    bundle = _bundle(
        out,
        opened,
        up=up,
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
        _up(out, opened, bundle, engine_python, (host, port, timeout))


def _targets(names: list[str] | None, up: bool) -> object:
    from autoadapter.artifacts import Target
    from autoadapter.errors import UserError
    from autoadapter.options import choose

    chosen = tuple(choose(Target, name, "target") for name in names) if names else None
    if up and chosen and Target.LOCAL not in chosen:
        raise UserError("--up starts the local target only.", hint="autoadapter deploy --up")
    return chosen


def _bundle(out: Out, opened: "Workspace", *, up: bool, **settings: Any) -> Path:
    """Write the bundle; `--up` takes the one that is there unless an option asks for another."""
    from autoadapter.options import parse_pairs

    engine_args = parse_pairs(tuple(settings.pop("engine_args") or ()))
    site = parse_pairs(tuple(settings.pop("site") or ()), "--site")
    another = engine_args or site or settings["image"] or settings["force"]
    with (
        pipeline(opened, out, "deploy", engine_args=engine_args, site=site, **settings) as stages,
        opened.plan_on_trial(),
    ):
        if engine_args:
            stages.replan()
            stages.optimize()
        outcome = stages.bundle() if up and not another else stages.deploy()
    if up:
        return outcome.path.parent
    say_if_skipped(out, outcome)
    if out.as_json:
        out.document(outcome.artifact.model_dump(mode="json"))
    else:
        show_bundle(out, outcome.artifact, outcome.path.parent)
    return outcome.path.parent


def show_bundle(out: Out, deployment: "Deployment", folder: Path) -> None:
    """What was written, and how far each claim is true."""
    out.heading(f"Bundle: {relative(folder)}  ({len(deployment.files)} files)")
    rows = [(row.claim, row.status.value, row.reason) for row in deployment.evidence]
    out.table(("claim", "status", "because"), rows, status_column=1)
    out.facts(list(deployment.commands.items()))
    out.findings(deployment.findings)


def _require_stopped(opened: "Workspace") -> None:
    """A running server is told before anything is written."""
    from autoadapter import deploy as room

    if (opened.root / "current-plan").exists():
        room.require_stopped(opened.bundle_with_server())


def _up(
    out: Out, opened: "Workspace", bundle: Path, engine_python: Path | None, listen: tuple[str, int, float]
) -> None:
    from autoadapter import deploy as room
    from autoadapter.engine import find_engine

    host, port, timeout = listen
    engine = find_engine(engine_python, needed_for="`deploy --up`")
    with out.progress("up") as progress:
        server = room.up(bundle, engine=engine, host=host, port=port, progress=progress, timeout=timeout)
    _show_server(out, server, relative(opened.root))


def _show_server(out: Out, server: "LocalServer", workspace: str) -> None:
    if out.as_json:
        out.document(server.model_dump(mode="json"))
        return
    out.heading(f"{server.served_name} answers at http://{server.host}:{server.port}")
    out.facts([("process group", str(server.process_group)), ("log", server.log)])
    out.next_step(f"autoadapter deploy --down -w {workspace}")


def _lifecycle(out: Out, opened: "Workspace", *, stop: bool) -> None:
    from autoadapter import deploy as room

    bundle = opened.bundle_with_server()
    with out.progress("down" if stop else "status") as progress:
        answer = room.down(bundle, progress) if stop else room.status(bundle)
    if out.as_json:
        out.document(answer.model_dump(mode="json"))
    else:
        out.line(answer.sentence)
