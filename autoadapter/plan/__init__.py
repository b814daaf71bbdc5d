"""Which layout, scheme and flags: pure functions from a profile and a wish to a plan that explains itself."""

from autoadapter.plan.planner import make_plan
from autoadapter.plan.request import PlanRequest

__all__ = ["PlanRequest", "make_plan"]
