"""Which layout, scheme and flags: pure functions from a profile and a wish to a plan that explains itself."""

from autoadapter.plan.planner import can_plan, make_plan
from autoadapter.plan.request import PlanRequest, require_context
from autoadapter.plan.sizing import SizingRequest, common_hardware, size_model

__all__ = ["PlanRequest", "SizingRequest", "can_plan", "common_hardware", "make_plan", "require_context", "size_model"]
