"""How long work tells where it is. Rooms call it; `cli/` draws it."""

from typing import Protocol


class Progress(Protocol):
    """Receives one line at a time from work in flight."""

    def __call__(self, text: str, fraction: float | None = None) -> None:
        """Show `text`; `fraction` is 0..1 where the work knows its size, else None."""


def silent(text: str, fraction: float | None = None) -> None:
    """For callers who do not watch."""
