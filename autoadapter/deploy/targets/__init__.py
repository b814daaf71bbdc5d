"""Where a bundle can run: one file a target, listed here and nowhere else."""

from autoadapter.deploy.target import DeployTarget
from autoadapter.deploy.targets.compose import ComposeTarget
from autoadapter.deploy.targets.kubernetes import KubernetesTarget
from autoadapter.deploy.targets.local import LocalTarget

TARGETS: tuple[DeployTarget, ...] = (LocalTarget(), ComposeTarget(), KubernetesTarget())

__all__ = ["TARGETS"]
