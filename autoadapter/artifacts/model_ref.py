"""Which model: a folder, a GGUF file, or a Hub repository at a revision."""

import re
from enum import StrEnum
from typing import Annotated

from pydantic import StringConstraints

from autoadapter.artifacts.base import Frozen

HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9][A-Za-z0-9._-]{0,95})?")
"""What the Hub allows as a repository id. Source: huggingface_hub `validate_repo_id`."""


class ModelKind(StrEnum):
    """How the model is reached."""

    FOLDER = "folder"
    GGUF_FILE = "gguf-file"
    HUB = "hub"


class ModelRef(Frozen):
    """A model as the user named it, resolved as far as it can be without loading anything."""

    kind: ModelKind
    location: Annotated[str, StringConstraints(min_length=1)]
    """Absolute path of the folder or file, or the Hub id."""
    revision: str | None = None
    """What the user asked for: branch, tag or commit. Only for Hub models."""
    commit: str | None = None
    """The 40-hex commit the Hub resolved the revision to."""
    follow_symlinks: bool = False
    """The user allowed links in the folder to lead out of it (`--follow-symlinks`)."""

    @property
    def name(self) -> str:
        """What people call it: the Hub id, or the last part of the path without `.gguf`."""
        if self.kind is ModelKind.HUB:
            return self.location
        last = self.location.rstrip("/").rsplit("/", 1)[-1]
        return last.removesuffix(".gguf") if self.kind is ModelKind.GGUF_FILE else last

    @property
    def slug(self) -> str:
        """`name` as a folder or DNS label: lower case, `[a-z0-9-]`, at most 63 characters, never empty."""
        return slugify(self.name)


def slugify(text: str) -> str:
    """Any text as a DNS label: lower case, `[a-z0-9-]`, at most 63 characters, never empty."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:63].strip("-") or "model"
