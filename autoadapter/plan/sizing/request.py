"""What to size for."""

from dataclasses import dataclass

from autoadapter.artifacts import Hardware
from autoadapter.plan.defaults import CPU_SHARE, default_utilization


@dataclass(frozen=True)
class SizingRequest:
    """What to size for; None leaves it to the model's or vLLM's default."""

    hardware: Hardware
    vllm_version: str
    max_model_len: int | None = None
    """Tokens."""
    gpu_memory_utilization: float | None = None
    kv_cache_dtype: str = "auto"

    @property
    def utilization(self) -> float:
        """Share of a device that the server may take."""
        if self.hardware.kind == "cpu":
            return CPU_SHARE
        return self.gpu_memory_utilization or default_utilization(self.vllm_version)
