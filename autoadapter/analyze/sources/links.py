"""Symbolic links: those that stay with the model are files like others, those that lead away need the user's word."""

import re
from collections.abc import Iterable
from pathlib import Path

from autoadapter.errors import UserError

FLAG = "--follow-symlinks"
CACHE = re.compile(r"(?P<home>.+/models--[^/]+)/snapshots/[^/]+")
"""A snapshot of the Hugging Face cache, whose files are links into `blobs/` of the same `models--…` folder."""


def home_of(folder: Path) -> Path:
    """The folder that a model's links may lead into: its own, or the model's part of the Hugging Face cache.

    Args:
        folder: the model's folder as the user named it; it may be a link itself.
    """
    real = folder.resolve()
    match = CACHE.fullmatch(str(real))
    return Path(match["home"]) if match else real


def require_near(paths: Iterable[Path], home: Path, model: str) -> None:
    """Refuse links that lead elsewhere.

    Args:
        paths: entries of the model's folder.
        home: where their targets may lie.
        model: what the user named, for the next command.

    Raises:
        UserError: with the first link and its target.
    """
    for path in paths:
        if path.is_symlink() and not (target := path.resolve()).is_relative_to(home):
            raise UserError(
                f"{path} is a symbolic link to {target}, which lies outside the model's folder; it was not followed.",
                hint=f"If you trust it: autoadapter analyze {model} {FLAG}",
            )
