"""What `generate` decides: `plan.json`, and the files it renders: `adapter/`."""

from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import Field

from autoadapter.artifacts.base import Artifact, Frozen
from autoadapter.artifacts.finding import Finding
from autoadapter.artifacts.model_profile import Route
from autoadapter.artifacts.model_ref import ModelRef

SettingValue = bool | int | float | str | tuple[str, ...]


class Strategy(StrEnum):
    """What the user wants most."""

    MAX_PERF = "max_perf"
    BALANCED = "balanced"
    MIN_MEM = "min_mem"


class Belief(StrEnum):
    """Who said it, strongest first (design.md section 4)."""

    USER = "user flag"
    FAMILY = "family data"
    COMPUTED = "computed"
    DEFAULT = "vllm default"


class Hardware(Frozen):
    """Devices of one machine, from `--hardware NAME[:COUNT]`."""

    name: str
    """Row of `hardware/gpus.yaml`, or `cpu`."""
    kind: Literal["cpu", "cuda"]
    count: int
    """GPUs, or 1 for a CPU machine."""
    memory_bytes: int
    """Physical bytes of one device."""
    compute_capability: str | None = None
    source: str

    @property
    def text(self) -> str:
        """As the user writes it: `cpu`, `h200:8`."""
        return self.name if self.kind == "cpu" else f"{self.name}:{self.count}"


class Workload(Frozen):
    """What the server is for. Tokens and requests."""

    input_len: int = 1024
    output_len: int = 256
    concurrency: int = 16


class EngineSetting(Frozen):
    """One `vllm serve` option."""

    flag: str
    """Long option without dashes, vLLM's own word: `max-model-len`."""
    value: SettingValue
    why: str
    source: str
    belief: Belief


class EnvSetting(Frozen):
    """One environment variable of the server process."""

    name: str
    value: str
    why: str
    source: str
    belief: Belief = Belief.COMPUTED


class Parallelism(Frozen):
    """How the model is spread over devices."""

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    data_parallel_size: int = 1


class Rejection(Frozen):
    """A choice that was considered and not taken."""

    choice: str
    reason: str
    source: str


class MemoryBudget(Frozen):
    """Bytes on the fullest device. `source` of each estimate is in `provenance`."""

    device_bytes: int
    weight_bytes: int
    overhead_bytes: int
    """Activation peak, non-torch memory, graphs: an estimate."""
    kv_pool_bytes: int
    kv_bytes_per_token: int
    kv_tokens: int
    max_concurrency: float
    """Requests of `max-model-len` tokens that fit the pool at once."""
    provenance: dict[str, str]


class Scheme(Frozen):
    """How the weights are stored for serving."""

    name: str
    """`as_is`, or a scheme of a quantization backend: `int8_w8a8`, `w4a16_gptq`, …"""
    backend: str | None
    """Row of `optimize/backends`; None when nothing is quantized."""
    options: dict[str, SettingValue] = Field(default_factory=dict)
    why: str
    source: str


class ServingPlan(Artifact):
    """Layout, scheme and flags, each with why and source."""

    file_name: ClassVar[str] = "plan.json"
    stage: ClassVar[str] = "generate"

    model: ModelRef
    profile_digest: str
    route: Route
    strategy: Strategy
    hardware: Hardware
    workload: Workload
    vllm_version: str
    served_name: str
    scheme: Scheme
    parallelism: Parallelism
    settings: tuple[EngineSetting, ...]
    env: tuple[EnvSetting, ...]
    memory: MemoryBudget
    rejected: tuple[Rejection, ...]
    findings: tuple[Finding, ...]

    def setting(self, flag: str) -> SettingValue | None:
        """The planned value of a `vllm serve` option, None when the plan leaves vLLM's default."""
        return next((setting.value for setting in self.settings if setting.flag == flag), None)


class RenderedFile(Frozen):
    """A file that a template wrote."""

    path: str
    """Relative to the folder of the bundle."""
    template: str
    sha256: str


class AdapterBundle(Artifact):
    """What `generate` rendered, in `adapter/`."""

    file_name: ClassVar[str] = "adapter.json"
    stage: ClassVar[str] = "generate"

    plan_digest: str
    files: tuple[RenderedFile, ...]
    findings: tuple[Finding, ...]
