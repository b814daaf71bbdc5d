"""What Compose and Kubernetes share: the Dockerfile, and what a container cannot see of this machine."""

import stat
from pathlib import Path

from autoadapter.artifacts import EngineSetting, Finding, Level
from autoadapter.deploy.facts import Facts
from autoadapter.deploy.views import DockerfileView
from autoadapter.rendering import render

DOCKERFILE = "container/Dockerfile"


def dockerfile(facts: Facts) -> dict[str, str]:
    """`container/Dockerfile`."""
    return {DOCKERFILE: render(DockerfileView(facts))}


def container_findings(facts: Facts) -> tuple[Finding, ...]:
    """What would surprise an operator of any container."""
    return (*_image(facts), *_host_paths(facts), *_unreadable(facts))


def _image(facts: Facts) -> tuple[Finding, ...]:
    if facts.image_is_pinned:
        return ()
    return (
        Finding(
            code="deploy.image-not-pinned",
            level=Level.WARNING,
            message=f"The image {facts.image} is not pinned by digest: a tag can be overwritten under a running fleet.",
            hint="Name it by digest: --image NAME@sha256:DIGEST",
            source="image",
        ),
    )


def _host_paths(facts: Facts) -> tuple[Finding, ...]:
    return tuple(_host_path(setting) for setting in facts.plan.settings if _is_host_path(setting))


def _is_host_path(setting: EngineSetting) -> bool:
    """Absolute and present: `/health,/metrics` is no path."""
    return isinstance(setting.value, str) and setting.value.startswith("/") and Path(setting.value).exists()


def _host_path(setting: EngineSetting) -> Finding:
    return Finding(
        code="deploy.host-path",
        level=Level.BLOCKER,
        message=f"--{setting.flag} names a path of this machine, which a container does not see.",
        hint="Mount it in compose/ and kubernetes/ under the same path, or leave the option out.",
        source=f"plan.json:settings.{setting.flag}",
    )


def _unreadable(facts: Facts) -> tuple[Finding, ...]:
    folder = Path(facts.weights.path)
    closed = [file.path for file in facts.weights.files if not _others_may_read(folder / file.path)]
    if not closed:
        return ()
    return (
        Finding(
            code="deploy.weights-not-readable",
            level=Level.WARNING,
            message=f"The container's user is not root and may not read {len(closed)} of the weights' files.",
            hint="In the weights' folder: chmod -R a+rX .",
            source=f"mode of {closed[0]}",
        ),
    )


def _others_may_read(path: Path) -> bool:
    return bool(path.stat().st_mode & stat.S_IROTH)
