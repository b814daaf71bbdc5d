"""The servers of the stage: one at a time, each role started at most once."""

import re
import shlex
from enum import StrEnum
from pathlib import Path

import yaml

from autoadapter.artifacts import EngineRun
from autoadapter.engine import EngineServer
from autoadapter.engine.client import EngineClient, Metrics
from autoadapter.engine.process import group_is_alive
from autoadapter.engine.startup_log import last_cause
from autoadapter.errors import EngineError, WorkspaceError
from autoadapter.progress import Progress
from autoadapter.rendering import to_yaml, write_atomically
from autoadapter.verify.request import VerifyRequest

START_TIMEOUT_SECONDS = 1800.0
QUIET_ENV = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1"}
OPEN_ENV = {"VLLM_API_KEY": ""}
"""No key on the loopback interface, even where the operator's shell has one."""
CANDIDATE_ONLY = ("quantization", "kv-cache-dtype")
"""Options that quantize: what they cost is for the candidate to show."""
TEST_OVERRIDES = ("host", "port", "api-key", "uvicorn-log-level", "root-path", "ssl-keyfile", "ssl-certfile")
"""Options about who may reach the server; the stage listens on the loopback interface alone."""


class Role(StrEnum):
    """Which checkpoint a server holds."""

    REFERENCE = "reference"  # the unquantized checkpoint under the plan's configuration
    CANDIDATE = "candidate"  # what will be served


class Engines:
    """Starts the server of a role when a check first asks for it, and stops the other one before."""

    def __init__(self, request: VerifyRequest, progress: Progress) -> None:
        self.runs: list[EngineRun] = []
        self._request = request
        self._progress = progress
        self._server: EngineServer | None = None
        self._client: EngineClient | None = None
        self._current: Role | None = None
        self._failures: dict[Role, EngineError] = {}

    def actual(self, role: Role) -> Role:
        """The role whose server answers for `role`: one server is both when nothing was quantized."""
        return Role.CANDIDATE if self._request.unchanged else role

    def client(self, role: Role) -> EngineClient:
        """A client of the role's server, which is started if it does not run.

        Raises:
            EngineError: it did not start, now or at an earlier request, or it has died.
        """
        role = self.actual(role)
        if self._current is role and (death := self.death()):
            self._failures[role] = death
        if role in self._failures:
            raise self._failures[role]
        if self._current is not role or self._client is None:
            self._switch(role)
        assert self._client is not None
        return self._client

    def run_of(self, role: Role) -> EngineRun | None:
        """The record of the role's start, None when it has not started."""
        actual = self.actual(role)
        return next((run for run in self.runs if run.role == actual), None)

    def death(self) -> EngineError | None:
        """Why the server that should run does not, None while it does or when none was started."""
        server = self._server
        if server is None or group_is_alive(server.process_group):
            return None
        return EngineError("vLLM died while it served.", cause=last_cause(server.log), log=server.log)

    def close(self) -> None:
        """Stop whatever runs."""
        if self._client is not None:
            self._client.close()
        if self._server is not None:
            self._server.stop()
        self._server = self._client = self._current = None

    def _switch(self, role: Role) -> None:
        self.close()
        server = self._server = self._describe(role).start()
        try:
            server.wait_until_ready(START_TIMEOUT_SECONDS, self._progress)
        except EngineError as error:
            self._failures[role] = error
            self.close()
            raise
        self._current = role
        self._client = EngineClient(server.base_url, self._request.plan.served_name)
        self.runs.append(self._record(role, server, self._client))

    def _describe(self, role: Role) -> EngineServer:
        request = self._request
        model = request.optimized.model_path if role is Role.CANDIDATE else request.optimized.reference_path
        config = request.logs / f"verify-{role}.yaml"
        write_atomically(config, to_yaml(stage_config(request.adapter, role)))
        env = QUIET_ENV | read_env(request.adapter / "vllm" / "env") | OPEN_ENV
        log = request.logs / f"verify-{role}.log"
        return EngineServer(request.engine, Path(model), config, log=log, env=env, plugin=request.adapter / "plugin")

    def _record(self, role: Role, server: EngineServer, client: EngineClient) -> EngineRun:
        startup = server.startup
        host, _, port = server.base_url.removeprefix("http://").rpartition(":")
        return EngineRun(
            role=role,
            vllm_version=self._request.engine.version,
            model_path=str(server.model),
            cold_start_seconds=round(server.cold_start_seconds, 2),
            kv_cache_tokens=startup.kv_cache_tokens,
            num_gpu_blocks=startup.num_blocks or num_gpu_blocks(client.metrics()),
            log=str(server.log),
            command=shlex.join(server.command(host, int(port))),
        )


def num_gpu_blocks(metrics: Metrics) -> int | None:
    """KV blocks by the label of `vllm:cache_config_info`, where the log does not tell them."""
    labels = "".join(metrics.samples.get("vllm:cache_config_info", {}))
    match = re.search(r'num_gpu_blocks="(\d+)"', labels)
    return int(match[1]) if match else None


def stage_config(adapter: Path, role: Role) -> dict[str, object]:
    """The rendered engine configuration as the stage serves it.

    Only what the stage must change is changed: who may reach the server, and for the reference what names the
    quantized copy's format.

    Raises:
        WorkspaceError: the adapter has no readable `vllm/config.yaml`.
    """
    path = adapter / "vllm" / "config.yaml"
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise WorkspaceError(f"{path} cannot be read: {error}.", hint="autoadapter generate --force") from None
    if not isinstance(document, dict):
        raise WorkspaceError(f"{path} is not a mapping of options.", hint="autoadapter generate --force")
    dropped = TEST_OVERRIDES + (CANDIDATE_ONLY if role is Role.REFERENCE else ())
    return {str(key): value for key, value in document.items() if key not in dropped}


def read_env(path: Path) -> dict[str, str]:
    """Assignments of an env file that a shell can source: `NAME=WORD`, quoted where need be, `#` comments.

    Raises:
        WorkspaceError: the file is missing, or a shell could not read it.
    """
    try:
        words = shlex.split(path.read_text(encoding="utf-8"), comments=True)
    except (OSError, ValueError) as error:
        raise WorkspaceError(f"{path} cannot be read: {error}.", hint="autoadapter generate --force") from None
    return {name: value for name, _, value in (word.partition("=") for word in words)}
