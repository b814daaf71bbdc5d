"""One machine with Docker: `compose/compose.yaml`."""

from pathlib import Path

from autoadapter.artifacts import Evidence, Finding, Status, Target, Validation
from autoadapter.deploy import containers, validators
from autoadapter.deploy.facts import (
    CONFIG_IN_CONTAINER,
    CONTAINER_PORT,
    CONTAINER_USER,
    DRAIN_MARGIN_SECONDS,
    GIB,
    HOME_IN_CONTAINER,
    PLUGIN,
    PLUGIN_IN_CONTAINER,
    Facts,
)
from autoadapter.deploy.resources import resources
from autoadapter.deploy.views import health_command
from autoadapter.rendering import to_yaml

FILE = "compose/compose.yaml"
HOME_GIB = 4
_RUN = f"docker compose -f {FILE}"


class ComposeTarget:
    """A container that Compose keeps running."""

    target = Target.COMPOSE

    def files(self, facts: Facts) -> dict[str, str]:
        """The Compose file and the Dockerfile."""
        document = {"name": facts.name, "services": {"vllm": _service(facts)}}
        return {FILE: to_yaml(document), **containers.dockerfile(facts)}

    def commands(self, facts: Facts) -> dict[str, str]:
        """Compose's own words; `--wait` returns when the health check passes."""
        return {
            "up": f"{_RUN} up --detach --wait --wait-timeout {facts.startup_budget}",
            "down": f"{_RUN} down",
            "status": f"{_RUN} ps",
            "smoke": f"python3 smoke.py --base-url {facts.client_url}",
        }

    def rollback(self, facts: Facts) -> tuple[str, ...]:
        """The previous bundle has the previous image, configuration and weights."""
        up = self.commands(facts)["up"]
        return (f"{_RUN} down", f"cd PREVIOUS_BUNDLE && {up}")

    def undo(self, facts: Facts) -> tuple[str, ...]:  # noqa: ARG002
        """Container and network go; the weights are only mounted."""
        return (f"{_RUN} down --volumes",)

    def evidence(self, facts: Facts) -> Evidence:
        """No container was started."""
        claim, command = "the container starts under Compose", self.commands(facts)["up"]
        return Evidence(
            claim=claim,
            status=Status.NOT_RUN,
            reason="no container is started while a bundle is written",
            command=command,
        )

    def findings(self, facts: Facts) -> tuple[Finding, ...]:
        """What a container cannot see or read."""
        return containers.container_findings(facts)

    def validate(self, bundle: Path) -> tuple[Validation, ...]:
        """Schema, lint, and Docker itself where it is installed."""
        return (
            *validators.COMPOSE_SCHEMA.check(bundle, FILE),
            *validators.COMPOSE.check(bundle, FILE),
            *validators.YAMLLINT.check(bundle, FILE),
            *validators.HADOLINT.check(bundle, containers.DOCKERFILE),
        )


def _service(facts: Facts) -> dict[str, object]:
    needed = resources(facts)
    service: dict[str, object] = {
        "image": facts.image,
        "entrypoint": ["vllm"],
        "command": facts.container_arguments,
        "environment": {name: _inert(value) for name, value in facts.container_env.items()},
        "ports": [f"{_interface(facts)}:{facts.site.port}:{CONTAINER_PORT}"],
        "volumes": [
            _weights(facts),
            _bind("../vllm/config.yaml", CONFIG_IN_CONTAINER),
            *([_bind(f"../{PLUGIN}", PLUGIN_IN_CONTAINER)] if facts.has_plugin else []),
            _scratch(HOME_IN_CONTAINER),
        ],
        "user": f"{CONTAINER_USER}:{CONTAINER_USER}",
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "shm_size": f"{needed.shm_gib}gb",
        "healthcheck": _healthcheck(facts),
        "stop_grace_period": f"{facts.shutdown_timeout + DRAIN_MARGIN_SECONDS}s",
        "restart": "unless-stopped",
    }
    if not facts.gpus:
        service["cpus"] = needed.cpus
    if facts.gpus:
        device = {"driver": "nvidia", "count": facts.gpus, "capabilities": ["gpu"]}
        service["deploy"] = {"resources": {"reservations": {"devices": [device]}}}
    return service


def _interface(facts: Facts) -> str:
    return "127.0.0.1" if facts.site.host == "localhost" else facts.site.host


def _healthcheck(facts: Facts) -> dict[str, object]:
    budget = f"{facts.startup_budget}s"
    return {
        "test": ["CMD", *health_command()],
        "interval": "10s",
        "timeout": "10s",
        "retries": 10,
        "start_period": budget,
    }


def _bind(source: str, target: str) -> dict[str, object]:
    """Long form: a source may hold colons and spaces."""
    return {"type": "bind", "source": _inert(source), "target": target, "read_only": True}


def _weights(facts: Facts) -> dict[str, object]:
    """`WEIGHTS` in the environment names another copy; a path that Compose would misread is taken as it is."""
    bind = _bind(facts.weights.path, facts.model_in_container)
    if not set("${}") & set(facts.weights.path):
        bind["source"] = f"${{WEIGHTS:-{facts.weights.path}}}"
    return bind


def _scratch(target: str) -> dict[str, object]:
    """Writable by the container's user; a named volume would belong to root."""
    return {"type": "tmpfs", "target": target, "tmpfs": {"size": HOME_GIB * GIB, "mode": 0o1777}}


def _inert(text: str) -> str:
    """Compose replaces `$NAME` and `${NAME}`; `$$` is a dollar."""
    return text.replace("$", "$$")
