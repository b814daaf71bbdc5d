"""A `vllm serve` process group: start, wait until it answers, stop. Used by `test` and by `deploy --up`."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from autoadapter.engine.startup_log import StartupLog, last_cause, read_startup_log
from autoadapter.engine.target import EngineTarget
from autoadapter.errors import EngineError, UserError
from autoadapter.progress import Progress, silent

LAUNCHER = Path(__file__).with_name("launcher.py")
STOP_GRACE_SECONDS = 20.0
POLL_SECONDS = 0.5


def vllm_command(target: EngineTarget, *arguments: str) -> list[str]:
    """The argument vector of `vllm ARGUMENTS` in the engine's interpreter."""
    return [str(target.python), str(LAUNCHER), *arguments]


def require_free_port(host: str, port: int) -> None:
    """Raise a UserError when somebody listens on `host:port` already."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            raise UserError(
                f"Port {port} on {host} is in use.",
                hint=f"Stop what listens there or choose another: --port {port + 1}",
            ) from None


def free_port(host: str = "127.0.0.1") -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def stop_group(group: int, grace: float = STOP_GRACE_SECONDS) -> None:
    """End a process group: SIGTERM, then SIGKILL after `grace` seconds. A group that is gone is fine."""
    for sign, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, 5.0)):
        try:
            os.killpg(group, sign)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline and group_is_alive(group):
            time.sleep(0.1)
        if not group_is_alive(group):
            return


def group_is_alive(group: int) -> bool:
    """Whether any process of the group still runs; zombies are reaped and do not count."""
    try:
        os.waitpid(group, os.WNOHANG)
    except ChildProcessError:
        pass
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def plugin_env(plugin: Path | None) -> dict[str, str]:
    """The variable by which an interpreter, and all that it starts, finds a plugin that is not installed."""
    if plugin is None or not plugin.is_dir():
        return {}
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(plugin.resolve()), os.environ.get("PYTHONPATH"))))}


class EngineServer:
    """A vLLM server that this process owns. As a context manager it is stopped at the end, whatever happens."""

    def __init__(
        self,
        target: EngineTarget,
        model: Path,
        config: Path,
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        plugin: Path | None = None,
    ) -> None:
        """Describe a server.

        Args:
            target: the vLLM to run.
            model: folder of the checkpoint to serve.
            config: a `vllm serve --config` YAML; it names options, not the model, so that one file serves any copy.
            log: where stdout and stderr go.
            env: variables on top of this process's own.
            plugin: folder of a vLLM plugin with its `.dist-info`; it is put first on the search path if it exists.
        """
        self.target = target
        self.model = model
        self.config = config
        self.log = log
        self.env = dict(env or {}) | plugin_env(plugin)
        self.cold_start_seconds = 0.0
        self.base_url = ""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process_group(self) -> int:
        """Id of the group; equals the leader's pid."""
        if self._process is None:
            raise EngineError("The server was not started.")
        return self._process.pid

    @property
    def startup(self) -> StartupLog:
        """What the start-up log says so far."""
        return read_startup_log(self.log)

    def command(self, host: str, port: int) -> list[str]:
        """The argument vector, complete: what a sceptic types."""
        listen = ("--host", host, "--port", str(port))
        return vllm_command(self.target, "serve", str(self.model), "--config", str(self.config), *listen)

    def start(self, *, host: str = "127.0.0.1", port: int | None = None, detach: bool = False) -> Self:
        """Start the process group and return at once.

        Args:
            host: interface to listen on.
            port: port to listen on; None takes a free one.
            detach: let the server outlive this process.

        Raises:
            UserError: the port is in use.
        """
        if port is None:
            port = free_port(host)
        require_free_port(host, port)
        self.base_url = f"http://{host}:{port}"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        env = {**os.environ, **self.env, "AUTOADAPTER_DIE_WITH_PARENT": "0" if detach else "1"}
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                self.command(host, port),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=True,
            )
        return self

    def wait_until_ready(self, timeout: float, progress: Progress = silent) -> float:
        """Wait for `/health`, telling the start-up phase. Returns the seconds that it took.

        Raises:
            EngineError: the server died (its last cause is quoted) or did not answer within `timeout` seconds.
        """
        began = time.monotonic()
        while (waited := time.monotonic() - began) < timeout:
            self._raise_if_dead()
            if self._answers():
                self.cold_start_seconds = waited
                return waited
            progress(f"vLLM: {self.startup.phase} ({waited:.0f} s)")
            time.sleep(POLL_SECONDS)
        phase = self.startup.phase
        self.stop()
        raise EngineError(f"vLLM did not answer within {timeout:.0f} s; it was at: {phase}.", log=self.log)

    def _raise_if_dead(self) -> None:
        if self._process is None or self._process.poll() is None:
            return
        code = self._process.returncode
        stop_group(self._process.pid)
        raise EngineError(
            f"vLLM ended while starting (exit code {code}).",
            cause=last_cause(self.log),
            log=self.log,
            hint="autoadapter doctor",
        )

    def _answers(self) -> bool:
        import httpx  # a third of what importing the engine room costs, and only a server needs it

        try:
            return httpx.get(f"{self.base_url}/health", timeout=2.0, trust_env=False).status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False

    def stop(self) -> None:
        """Stop the whole group. Safe to call twice."""
        if self._process is not None:
            stop_group(self._process.pid)
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
