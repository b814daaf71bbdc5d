"""What every artifact shares: frozen, strict, versioned, and one JSON file."""

import hashlib
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from autoadapter.errors import WorkspaceError
from autoadapter.once import once_each

SCHEMA_VERSION: Literal[1] = 1


class Frozen(BaseModel):
    """A value that is written once and refuses what it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Artifact(Frozen):
    """What a stage writes into the workspace and the next stage reads."""

    file_name: ClassVar[str]
    stage: ClassVar[str]

    schema_version: Literal[1] = SCHEMA_VERSION
    tool_version: str
    """Version of AutoAdapter that wrote the file."""

    def to_json(self) -> str:
        """The file's text: sorted by field order, two spaces, one newline at the end."""
        return self.model_dump_json(indent=2) + "\n"

    @once_each
    def digest(self) -> str:
        """SHA-256 over the JSON text, 64 hex digits: the identity that later stages depend on."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read an artifact.

        Raises:
            WorkspaceError: the file is missing, of another schema version, or not what this stage writes.
        """
        try:
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            raise WorkspaceError(
                f"{path} does not exist: the stage `{cls.stage}` has not run here.",
                hint=f"autoadapter {cls.stage} -w {path.parent}",
            ) from None
        except OSError as error:
            what = "is a folder, and a file belongs there" if path.is_dir() else f"cannot be read: {error.strerror}"
            hint = f"Move it out of the way, then: autoadapter {cls.stage} -w {path.parent}"
            raise WorkspaceError(f"{path} {what}.", hint=hint) from None
        except ValidationError as error:
            raise WorkspaceError(_why_unreadable(path, error), hint=f"autoadapter {cls.stage} --force") from None


def _why_unreadable(path: Path, error: ValidationError) -> str:
    first: Any = error.errors()[0]
    if first["loc"] == ("schema_version",):
        return f"{path} has schema version {first['input']}, this AutoAdapter reads version {SCHEMA_VERSION}."
    where = ".".join(str(part) for part in first["loc"]) or "the document"
    return f"{path} is not what this AutoAdapter writes: {where}: {first['msg']}."
