"""A layout, and how a rule refuses one."""

from dataclasses import dataclass

from autoadapter.artifacts import Parallelism


@dataclass(frozen=True)
class Layout:
    """How the model is spread; `expert_parallel` keeps experts whole and deals them out over TP × DP ranks."""

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    expert_parallel: bool = False

    @property
    def devices(self) -> int:
        """Devices that the layout occupies."""
        return self.tensor * self.pipeline * self.data

    @property
    def expert_ranks(self) -> int:
        """Ranks over which experts are dealt out or cut: TP × DP, vLLM's expert-parallel group."""
        return self.tensor * self.data

    @property
    def text(self) -> str:
        """As a plan names it: `TP 2 × DP 4`."""
        parts = [f"TP {self.tensor}"]
        parts += [f"PP {self.pipeline}"] if self.pipeline > 1 else []
        parts += [f"DP {self.data}"] if self.data > 1 else []
        return " × ".join(parts) + (" with expert parallelism" if self.expert_parallel else "")

    def as_artifact(self) -> Parallelism:
        """The sizes as `plan.json` carries them."""
        return Parallelism(
            tensor_parallel_size=self.tensor, pipeline_parallel_size=self.pipeline, data_parallel_size=self.data
        )


@dataclass(frozen=True)
class Refusal:
    """Why vLLM does not take a layout."""

    reason: str
    source: str
    """The line of vLLM that stops it."""
    remedy: str | None = None
    """What to do about it, None where only another layout helps."""
