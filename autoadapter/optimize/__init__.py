"""The `optimize` stage: the checkpoint that a plan asks for, and what it cost in quality."""

from autoadapter.optimize.backends import BACKENDS
from autoadapter.optimize.environments import EnvironmentState, environment, list_environments
from autoadapter.optimize.request import OptimizeRequest
from autoadapter.optimize.stage import optimize

__all__ = ["BACKENDS", "EnvironmentState", "OptimizeRequest", "environment", "list_environments", "optimize"]
