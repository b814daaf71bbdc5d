"""How a stage says what it noticed. Exceptions are for "cannot go on"; findings are for everything else."""

from enum import StrEnum

from autoadapter.artifacts.base import Frozen


class Level(StrEnum):
    """Defined by what it means for the user."""

    BLOCKER = "blocker"  # will not start, or will answer wrongly
    WARNING = "warning"  # will work worse
    INFO = "info"


class Finding(Frozen):
    """One thing worth telling, with where it was seen and what to do about it."""

    code: str
    """Stable and greppable, `room.topic`: `tokenizer.eos-conflict`."""
    level: Level
    message: str
    hint: str | None = None
    source: str
    """Where it was seen: `config.json:rope_scaling`, `tensor lm_head.weight`, `families/qwen3.yaml`."""
