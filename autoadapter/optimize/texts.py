"""The bundled texts, and the user's own calibration file."""

import hashlib
import json
from pathlib import Path

from autoadapter.errors import UserError

DATA = Path(__file__).with_name("data")
HELD_OUT = DATA / "heldout.txt"
"""What perplexity is measured on: prose, code, markup, several languages; never used for calibration."""
CALIBRATION = DATA / "calibration.jsonl"
"""Conversations and plain texts for calibrated schemes; disjoint from `HELD_OUT`."""


def text_sha256(path: Path) -> str:
    """SHA-256 of a text file, 64 hex digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def calibration_file(chosen: Path | None) -> Path:
    """The user's calibration file once it proved readable, or the bundled one.

    Raises:
        UserError: the file is missing, empty, not UTF-8, or a `.jsonl` row is neither `messages` nor `text`.
    """
    if chosen is None:
        return CALIBRATION
    try:
        lines = [line for line in chosen.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"The calibration file {chosen} cannot be read: {error}.", hint=_FORMATS) from None
    if not lines:
        raise UserError(f"The calibration file {chosen} is empty.", hint=_FORMATS)
    if chosen.suffix == ".jsonl":
        for number, line in enumerate(lines, 1):
            _require_row(chosen, number, line)
    return chosen.resolve()


_FORMATS = 'A .txt of plain text, or a .jsonl of {"messages": [{"role": …, "content": …}]} or {"text": …} rows.'


def _require_row(path: Path, number: int, line: str) -> None:
    try:
        row = json.loads(line)
    except ValueError:
        row = None
    if not isinstance(row, dict) or not (_is_text(row) or _is_conversation(row)):
        raise UserError(f"Row {number} of {path} is neither a conversation nor a text.", hint=_FORMATS)


def _is_text(row: dict[str, object]) -> bool:
    return isinstance(row.get("text"), str) and bool(row["text"])


def _is_conversation(row: dict[str, object]) -> bool:
    messages = row.get("messages")
    return (
        isinstance(messages, list)
        and bool(messages)
        and all(
            isinstance(message, dict) and all(isinstance(message.get(key), str) for key in ("role", "content"))
            for message in messages
        )
    )
