"""The texts that the checks feed to the models: `data/`, read once."""

from functools import cache
from pathlib import Path

import yaml

from autoadapter.artifacts import Frozen

DATA = Path(__file__).with_name("data")
HELDOUT = ("prose", "code", "multilingual", "legal")


class TokenizerCase(Frozen):
    """A text that tokenizers disagree about."""

    name: str
    text: str
    repeat: int = 1


class QualityLimit(Frozen):
    """A row of `limits.yaml`."""

    bits: int
    nats: float
    source: str


@cache
def tokenizer_cases() -> dict[str, str]:
    """Name → text."""
    rows = yaml.safe_load((DATA / "tokenizer_cases.yaml").read_text(encoding="utf-8"))
    cases = (TokenizerCase.model_validate(row) for row in rows)
    return {case.name: case.text * case.repeat for case in cases}


@cache
def chats() -> list[list[dict[str, str]]]:
    """Conversations for the chat template."""
    found: list[list[dict[str, str]]] = yaml.safe_load((DATA / "chats.yaml").read_text(encoding="utf-8"))
    return found


@cache
def prompts() -> tuple[str, ...]:
    """Plain questions."""
    return tuple(yaml.safe_load((DATA / "prompts.yaml").read_text(encoding="utf-8")))


@cache
def heldout(name: str) -> str:
    """One of the held-out texts."""
    return (DATA / "heldout" / f"{name}.txt").read_text(encoding="utf-8")


@cache
def quality_limits() -> tuple[QualityLimit, ...]:
    """Rows of `limits.yaml`."""
    rows = yaml.safe_load((DATA / "limits.yaml").read_text(encoding="utf-8"))
    return tuple(QualityLimit.model_validate(row) for row in rows)


def quality_limit(bits: int | None) -> QualityLimit:
    """The row for weights of `bits` bits; between rows the next narrower one holds, None is the widest."""
    rows = sorted(quality_limits(), key=lambda row: row.bits, reverse=True)
    if bits is None:
        return rows[0]
    return next((row for row in rows if row.bits <= bits), rows[-1])
