"""Which bundle ran before this one, and how to bring it back."""

import json
from collections.abc import Mapping

from pydantic import JsonValue

from autoadapter.artifacts import Deployment
from autoadapter.deploy.request import DeployRequest
from autoadapter.errors import WorkspaceError

FILE = "rollback.json"


def record(request: DeployRequest, commands: Mapping[str, tuple[str, ...]]) -> JsonValue:
    """The document of `rollback.json`: the previous bundle in this place, and the lines of each target."""
    return {"previous": _previous(request), "commands": {target: list(lines) for target, lines in commands.items()}}


def _previous(request: DeployRequest) -> JsonValue:
    """The bundle that this one replaces; writing the same one again remembers the same previous."""
    try:
        old = Deployment.read(request.folder / Deployment.file_name)
    except WorkspaceError:
        return None
    if old.plan_digest == request.plan.digest():
        return _remembered(request)
    return {
        "model": old.model,
        "revision": old.revision,
        "vllm_version": old.vllm_version,
        "plan_digest": old.plan_digest,
        "report_digest": old.report_digest,
    }


def _remembered(request: DeployRequest) -> JsonValue:
    try:
        document = json.loads((request.folder / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    previous: JsonValue = document.get("previous") if isinstance(document, dict) else None
    return previous
