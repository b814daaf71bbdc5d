"""What devices there are: one row a GPU in `gpus.yaml`, and this machine."""

from autoadapter.hardware.catalog import Gpu, Interconnect, Rate, gpu_of, gpus, parse_hardware
from autoadapter.hardware.machine import this_machine, usable_memory_bytes

__all__ = [
    "Gpu",
    "Interconnect",
    "Rate",
    "gpu_of",
    "gpus",
    "parse_hardware",
    "this_machine",
    "usable_memory_bytes",
]
