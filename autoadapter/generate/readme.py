"""The README's view: the plan as tables."""

from dataclasses import dataclass
from typing import ClassVar, Self

from autoadapter.artifacts import (
    EngineSetting,
    EnvSetting,
    Finding,
    MemoryBudget,
    ModelProfile,
    Rejection,
    ServingPlan,
)

GIB = 1024**3


@dataclass(frozen=True)
class SettingRow:
    """A row of the plan's table."""

    flag: str
    shown: str
    why: str
    source: str
    belief: str

    @classmethod
    def of(cls, setting: EngineSetting) -> Self:
        """The row of a setting."""
        value = setting.value
        shown = ", ".join(value) if isinstance(value, tuple) else str(value)
        return cls(setting.flag, shown, setting.why, setting.source, setting.belief.value)


@dataclass(frozen=True)
class MemoryRow:
    """A row of the memory table."""

    name: str
    shown: str
    source: str


@dataclass(frozen=True)
class Readme:
    """The adapter's README."""

    template: ClassVar[str] = "adapter/README.md.j2"

    tool_version: str
    model: str
    vllm_version: str
    route: str
    strategy: str
    hardware: str
    on_cpu: bool
    scheme: str
    scheme_why: str
    scheme_source: str
    settings: tuple[SettingRow, ...]
    env: tuple[EnvSetting, ...]
    memory: tuple[MemoryRow, ...]
    rejected: tuple[Rejection, ...]
    findings: tuple[Finding, ...]

    @classmethod
    def of(cls, profile: ModelProfile, plan: ServingPlan) -> Self:
        """The view of a plan."""
        options = "".join(f" {key} {value}" for key, value in plan.scheme.options.items())
        return cls(
            tool_version=plan.tool_version,
            model=profile.ref.name,
            vllm_version=plan.vllm_version,
            route=plan.route.value,
            strategy=plan.strategy.value,
            hardware=plan.hardware.text,
            on_cpu=plan.hardware.kind == "cpu",
            scheme=plan.scheme.name + options,
            scheme_why=plan.scheme.why,
            scheme_source=plan.scheme.source,
            settings=tuple(SettingRow.of(setting) for setting in plan.settings),
            env=plan.env,
            memory=_memory_rows(plan.memory),
            rejected=plan.rejected,
            findings=plan.findings,
        )


def _memory_rows(memory: MemoryBudget) -> tuple[MemoryRow, ...]:
    sizes = {
        "device": ("device_bytes", f"{memory.device_bytes / GIB:.2f} GiB"),
        "weights": ("weight_bytes", f"{memory.weight_bytes / GIB:.2f} GiB"),
        "overhead (estimate)": ("overhead_bytes", f"{memory.overhead_bytes / GIB:.2f} GiB"),
        "KV cache": ("kv_pool_bytes", f"{memory.kv_pool_bytes / GIB:.2f} GiB"),
        "KV cache of one token": ("kv_bytes_per_token", f"{memory.kv_bytes_per_token} bytes"),
        "tokens in the KV cache": ("kv_tokens", f"{memory.kv_tokens}"),
        "requests of full length at once": ("max_concurrency", f"{memory.max_concurrency:g}"),
    }
    return tuple(MemoryRow(name, shown, memory.provenance.get(key, "")) for name, (key, shown) in sizes.items())
