"""What each deploy template may see: one frozen dataclass a template."""

import json
from dataclasses import dataclass
from typing import ClassVar

from autoadapter.deploy.facts import (
    CONFIG_IN_CONTAINER,
    CONTAINER_PORT,
    CONTAINER_USER,
    HOME_IN_CONTAINER,
    PLUGIN,
    PLUGIN_IN_CONTAINER,
    PRE_STOP_SECONDS,
    Facts,
)
from autoadapter.rendering.literals import code_span


@dataclass(frozen=True)
class ServeScriptView:
    """`local/serve.sh`: the exact line, for machines without AutoAdapter."""

    template: ClassVar[str] = "deploy/local/serve.sh.j2"
    facts: Facts

    @property
    def options(self) -> list[str]:
        """What follows host and port."""
        site = self.facts.site
        line = self.facts.serve_arguments("", "", site.host, site.port)
        return line[line.index("--port") + 2 :]


@dataclass(frozen=True)
class DockerfileView:
    """`container/Dockerfile`: the configuration baked into an image; the weights stay outside."""

    template: ClassVar[str] = "deploy/container/Dockerfile.j2"
    facts: Facts
    config: str = CONFIG_IN_CONTAINER
    home: str = HOME_IN_CONTAINER
    plugin: str = PLUGIN
    plugin_in_container: str = PLUGIN_IN_CONTAINER
    port: int = CONTAINER_PORT
    user: int = CONTAINER_USER

    @property
    def env(self) -> list[tuple[str, str]]:
        """Names, and values as Dockerfile literals: Docker expands `$NAME` inside double quotes."""
        return [(name, json.dumps(value).replace("$", "\\$")) for name, value in self.facts.container_env.items()]

    @property
    def entrypoint(self) -> str:
        """The exec form: a JSON array."""
        return json.dumps(["vllm", *self.facts.container_arguments])

    @property
    def healthcheck(self) -> str:
        """The exec form of the health check."""
        return json.dumps(health_command())


def health_command() -> list[str]:
    """Asks `/health` with what every vLLM image has: Python."""
    script = f"import urllib.request as r; r.urlopen('http://127.0.0.1:{CONTAINER_PORT}/health', timeout=5)"
    return ["python3", "-c", script]


@dataclass(frozen=True)
class SmokeView:
    """`smoke.py`: a test that needs nothing but Python."""

    template: ClassVar[str] = "deploy/smoke.py.j2"
    facts: Facts


@dataclass(frozen=True)
class RunbookView:
    """`RUNBOOK.md`: what an operator does, and what vLLM does not tell."""

    template: ClassVar[str] = "deploy/RUNBOOK.md.j2"
    facts: Facts
    commands: dict[str, dict[str, str]]
    """Target → verb → line."""
    rollback: dict[str, tuple[str, ...]]
    pre_stop: int = PRE_STOP_SECONDS

    @property
    def revision(self) -> str:
        """What fixes the model's source."""
        model = self.facts.plan.model
        return model.commit or model.revision or "a folder or file, no revision"

    def cell(self, text: str) -> str:
        """Text from outside as a code span in a table: a bar would end the cell even there."""
        return code_span(text).replace("|", "\\|")

    @property
    def gib(self) -> str:
        """Size of the weights, two digits."""
        return f"{sum(file.bytes for file in self.facts.weights.files) / 1024**3:.2f}"
