"""The `deploy` stage: everything an operator needs, validated; and the server that `--up` starts."""

from autoadapter.deploy.checksums import is_untouched
from autoadapter.deploy.local import ServerState, ServerStatus, down, require_stopped, status, up
from autoadapter.deploy.request import DeployRequest, check
from autoadapter.deploy.site import Site
from autoadapter.deploy.stage import deploy

__all__ = [
    "DeployRequest",
    "ServerState",
    "ServerStatus",
    "Site",
    "check",
    "deploy",
    "down",
    "is_untouched",
    "require_stopped",
    "status",
    "up",
]
