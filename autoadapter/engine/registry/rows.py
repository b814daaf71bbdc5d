"""What the registry itself does not say, as rows of YAML that people write: aliases, measurements, gaps, issues."""

from functools import cache
from pathlib import Path
from typing import Literal

from autoadapter.artifacts import Frozen, Level
from autoadapter.engine.registry.conditions import Condition
from autoadapter.tables import read_table

FOLDER = Path(__file__).parent
Answer = Literal["right", "wrong", "fails", "unknown"]


class Alias(Frozen):
    """A row of `aliases.yaml`: an architecture that vLLM serves under another name."""

    architecture: str
    served_as: str
    why: str
    source: str


class BackendSignal(Frozen):
    """A row of `backend.yaml`: what vLLM's Transformers modeling backend makes of models that fit a condition."""

    answer: Answer
    """`right`: the reference's log-probabilities; `wrong`: it starts and gives others; `fails`: it does not start;
    `unknown`: transformers has the class, and nobody measured it."""
    why: str
    when: Condition
    source: str


class CpuGap(Frozen):
    """A row of `cpu_gaps.yaml`: something that vLLM has no CPU kernel for."""

    what: str
    when: Condition
    source: str


class KnownIssue(Frozen):
    """A row of `known_issues.yaml`: what some releases of vLLM do to models that fit a condition."""

    code: str
    """Of the finding."""
    level: Level
    when: Condition
    message: str
    remedy: str
    source: str


def _rows(name: str) -> list[dict[str, object]]:
    """The rows of a file."""
    rows: list[dict[str, object]] = read_table(FOLDER / name)
    return rows


@cache
def aliases() -> dict[str, Alias]:
    """Rows of `aliases.yaml` by architecture."""
    return {alias.architecture: alias for alias in map(Alias.model_validate, _rows("aliases.yaml"))}


@cache
def backend_signals() -> tuple[BackendSignal, ...]:
    """Rows of `backend.yaml`, in the file's order: the first that fits decides."""
    return tuple(map(BackendSignal.model_validate, _rows("backend.yaml")))


@cache
def transformers_classes() -> frozenset[str]:
    """Classes that transformers is known to have: those that rows of `backend.yaml` name."""
    return frozenset(name for signal in backend_signals() for name in signal.when.architectures)


@cache
def cpu_gaps() -> tuple[CpuGap, ...]:
    """Rows of `cpu_gaps.yaml`, in the file's order."""
    return tuple(map(CpuGap.model_validate, _rows("cpu_gaps.yaml")))


@cache
def known_issues() -> tuple[KnownIssue, ...]:
    """Rows of `known_issues.yaml`, in the file's order."""
    return tuple(map(KnownIssue.model_validate, _rows("known_issues.yaml")))


def cpu_head_sizes() -> frozenset[int]:
    """Head sizes that vLLM's CPU attention computes. Source: vLLM 0.32 `v1/attention/backends/cpu_attn.py`."""
    return frozenset({32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512})
