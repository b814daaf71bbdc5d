"""What a model needs on given hardware, before anything was started."""

from autoadapter.plan.sizing.model import common_hardware, size_model, smallest_hardware
from autoadapter.plan.sizing.request import SizingRequest

__all__ = ["SizingRequest", "common_hardware", "size_model", "smallest_hardware"]
