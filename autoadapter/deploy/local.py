"""`deploy --up`, `--down`, `--status`: one vLLM process group beside its bundle."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

import yaml
from pydantic import JsonValue, computed_field

from autoadapter import __version__
from autoadapter.artifacts import Deployment, Frozen, LocalServer
from autoadapter.deploy import checksums, weights
from autoadapter.deploy.envfile import read_env
from autoadapter.deploy.facts import OFFLINE, PLUGIN, client_url
from autoadapter.deploy.server import is_ours, loaded_models, start_ticks, stop, uptime_seconds
from autoadapter.deploy.site import Site, check_host, check_port
from autoadapter.engine import EngineServer, EngineTarget
from autoadapter.engine.process import require_free_port
from autoadapter.engine.startup_log import last_cause, read_startup_log
from autoadapter.errors import EngineError, UserError, VerificationFailedError, WorkspaceError
from autoadapter.progress import Progress, silent
from autoadapter.rendering import write_atomically

LOG, SMOKE = "server.log", "smoke.json"
READY_TIMEOUT_SECONDS = 900.0
STOP_MARGIN_SECONDS = 30.0
"""What the engine needs to end after its last request."""
SMOKE_TIMEOUT_SECONDS = 600.0


class ServerState(StrEnum):
    """What can be said of the server of a bundle."""

    NEVER_STARTED = "never_started"
    RUNNING = "running"  # the process lives and does not answer: it starts, drains or hangs
    ANSWERING = "answering"
    STOPPED = "stopped"
    DEAD = "dead"


class ServerStatus(Frozen):
    """What `--status` and `--down` tell."""

    state: ServerState
    detail: str
    process_group: int | None = None
    host: str | None = None
    port: int | None = None
    uptime_seconds: float | None = None
    models: tuple[str, ...] = ()
    log: str | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def sentence(self) -> str:
        """One line for people."""
        where = f" at http://{self.host}:{self.port}" if self.port else ""
        return f"{self.state.value.replace('_', ' ')}{where}: {self.detail}"


def state_file(path: Path) -> Path:
    """`server.json` beside a bundle; a path that names it already stays."""
    return path if path.name == LocalServer.file_name else path.absolute().parent / LocalServer.file_name


def up(
    bundle: Path,
    *,
    engine: EngineTarget,
    host: str | None = None,
    port: int | None = None,
    progress: Progress = silent,
    timeout: float = READY_TIMEOUT_SECONDS,
) -> LocalServer:
    """Start the bundle's server, wait until it answers, and run its smoke test.

    `server.json` appears before the wait, so that `down` works after any accident. When the start or the smoke test
    fails, or the user interrupts, the process group is stopped and `server.json` removed; the log stays.

    Args:
        bundle: folder that `deploy` wrote; nothing is written into it.
        engine: the vLLM to run.
        host: IPv4 interface; None takes the bundle's.
        port: None takes the bundle's.
        progress: told the start-up phase.
        timeout: seconds to wait for `/health`.

    Raises:
        UserError: the bundle was changed, it runs already, or the port is in use.
        BrokenCheckpointError: the weights are not what was tested.
        EngineError: vLLM did not start.
        VerificationFailedError: it started and failed the smoke test.
    """
    bundle = bundle.absolute()
    checksums.require_untouched(bundle)
    manifest = Deployment.read(bundle / Deployment.file_name)
    site = Site.model_validate_json((bundle / "site.json").read_bytes())
    _require_version(manifest, engine)
    state = state_file(bundle)
    require_stopped(state)
    listen = check_host(host or site.host), check_port(port or site.port)
    require_free_port(*listen)
    _require_weights(manifest, progress)
    server = EngineServer(
        engine,
        Path(manifest.weights.path),
        bundle / "vllm/config.yaml",
        log=bundle.parent / LOG,
        env={**OFFLINE, **read_env(bundle / "vllm/env")},
        plugin=bundle / PLUGIN,
    )
    try:
        server.start(host=listen[0], port=listen[1], detach=True)
        record = _record(server, bundle, *listen)
        write_atomically(state, record.to_json())
        server.wait_until_ready(timeout, progress)
        _smoke(bundle, record, progress)
    except BaseException:
        server.stop()
        state.unlink(missing_ok=True)
        raise
    return record


def _require_version(manifest: Deployment, engine: EngineTarget) -> None:
    if engine.version != manifest.vllm_version:
        raise UserError(
            f"The bundle was made for vLLM {manifest.vllm_version}, {engine.python} has {engine.version}.",
            hint="Name another interpreter: --engine-python PATH, or plan again: autoadapter generate --force",
        )


def require_stopped(path: Path) -> None:
    """Raise a UserError when the server of a bundle runs already.

    Args:
        path: the bundle, or its `server.json`.
    """
    old = status(path)
    if old.state in (ServerState.RUNNING, ServerState.ANSWERING):
        where = f"http://{old.host}:{old.port}, process group {old.process_group}"
        hint = "autoadapter deploy --status, or stop it: autoadapter deploy --down"
        raise UserError(f"The bundle is up already ({where}).", hint=hint)


def _require_weights(manifest: Deployment, progress: Progress) -> None:
    cheap = sum(file.bytes for file in manifest.weights.files) <= weights.CHEAP_BYTES
    if cheap:
        weights.require_intact(manifest.weights, progress)
    else:
        weights.require_present(manifest.weights)


def _record(server: EngineServer, bundle: Path, host: str, port: int) -> LocalServer:
    ticks = start_ticks(server.process_group)
    if ticks is None:
        raise EngineError(
            "vLLM ended at once.", cause=last_cause(server.log), log=server.log, hint="autoadapter doctor"
        )
    return LocalServer(
        tool_version=__version__,
        process_group=server.process_group,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        process_start_ticks=ticks,
        host=host,
        port=port,
        served_name=_served_name(bundle),
        bundle=str(bundle),
        log=str(server.log),
    )


def _served_name(bundle: Path) -> str:
    named = yaml.safe_load((bundle / "vllm/config.yaml").read_text(encoding="utf-8"))["served-model-name"]
    return str(named[0] if isinstance(named, list) else named)


def _smoke(bundle: Path, record: LocalServer, progress: Progress) -> None:
    """Run the bundle's own smoke test; its JSON stays beside the bundle."""
    progress("smoke test")
    url = client_url(record.host, record.port)
    command = [sys.executable, "-I", str(bundle / "smoke.py"), "--base-url", url, "--json"]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SMOKE_TIMEOUT_SECONDS,
            check=False,
            encoding="utf-8",
        )
    except subprocess.TimeoutExpired:
        raise EngineError("The server did not finish the smoke test in time.", log=Path(record.log)) from None
    write_atomically(bundle.parent / SMOKE, done.stdout or "{}\n")
    if done.returncode == 0:
        return
    hint = f"The log: {record.log}"
    raise VerificationFailedError(
        f"The server failed its smoke test: {_failures(done.stdout, done.stderr)}.", hint=hint
    )


def _failures(output: str, errors: str) -> str:
    try:
        rows: list[dict[str, JsonValue]] = json.loads(output)["checks"]
    except (ValueError, LookupError, TypeError):
        return " ".join(errors.split())[-400:] or "it printed nothing"
    return "; ".join(f"{row['name']}: {row['reason']}" for row in rows if row["status"] == "failed")


def down(path: Path, progress: Progress = silent) -> ServerStatus:
    """Stop the server of a bundle and forget it. The log stays.

    The number in `server.json` may belong to a stranger by now; only the process that `up` started is signalled.

    Args:
        path: the bundle, or its `server.json`.
        progress: told once.

    Raises:
        EngineError: the group does not end, not even on SIGKILL.
    """
    before = status(path)
    if before.process_group is None:
        return before
    record = _read_record(state_file(path))
    if before.state is not ServerState.DEAD:
        progress(f"stopping process group {record.process_group}")
        if not stop(record, _grace(record)):
            raise EngineError(f"Process group {record.process_group} does not end.", log=Path(record.log))
    state_file(path).unlink(missing_ok=True)
    ended = before.state is ServerState.DEAD
    detail = f"nothing to stop, {before.detail}" if ended else f"stopped process group {record.process_group}"
    return ServerStatus(state=ServerState.STOPPED, detail=detail, log=record.log)


def _grace(record: LocalServer) -> float:
    """Seconds that the bundle grants to requests in flight, and a margin."""
    config = Path(record.bundle) / "vllm/config.yaml"
    planned = yaml.safe_load(config.read_text(encoding="utf-8")).get("shutdown-timeout") if config.exists() else None
    return float(planned or 0) + STOP_MARGIN_SECONDS


def status(path: Path) -> ServerStatus:
    """What can be said of the server of a bundle. Reads only.

    Args:
        path: the bundle, or its `server.json`.
    """
    state = state_file(path)
    log = state.with_name(LOG)
    if not state.exists():
        if log.exists():
            return ServerStatus(state=ServerState.STOPPED, detail="no server is up", log=str(log))
        return ServerStatus(state=ServerState.NEVER_STARTED, detail="no server was started from this bundle")
    return _status_of(_read_record(state))


def _read_record(state: Path) -> LocalServer:
    try:
        return LocalServer.read(state)
    except WorkspaceError as error:
        hint = f"End the vLLM that it was about, if one runs (see {state.with_name(LOG)}), then delete {state}"
        raise WorkspaceError(str(error), hint=hint) from None


def _status_of(record: LocalServer) -> ServerStatus:
    log = Path(record.log)
    known = {"process_group": record.process_group, "host": record.host, "port": record.port, "log": record.log}
    if not is_ours(record):
        detail = f"it ended without --down; last error: {last_cause(log) or 'none in the log'}"
        return ServerStatus(state=ServerState.DEAD, detail=detail, **known)
    uptime = uptime_seconds(record)
    models = loaded_models(record)
    if models is None:
        phase = read_startup_log(log).phase
        detail = "it was up and does not answer now" if phase == "answering" else f"not answering yet: {phase}"
        return ServerStatus(state=ServerState.RUNNING, detail=detail, uptime_seconds=uptime, **known)
    detail = (
        f"serves {', '.join(models) or record.served_name} for {uptime:.0f} s, process group {record.process_group}"
    )
    return ServerStatus(state=ServerState.ANSWERING, detail=detail, uptime_seconds=uptime, models=models, **known)
