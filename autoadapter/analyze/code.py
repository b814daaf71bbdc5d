"""What probing needs of a model beside the verdict: its config as it stands, and its own code where it may be run."""

from pathlib import Path

from pydantic import JsonValue

from autoadapter.analyze.sources import open_repository
from autoadapter.analyze.stage import gather
from autoadapter.artifacts import ModelRef
from autoadapter.rendering import write_atomically


def read_config(ref: ModelRef) -> dict[str, JsonValue]:
    """The whole config.json, or what GGUF metadata says in its words.

    Raises:
        UserError: there is none.
        BrokenCheckpointError: it cannot be read.
    """
    return dict(gather(open_repository(ref)).root.data)


def copy_code(ref: ModelRef, folder: Path) -> Path:
    """Copy the Python files that a checkpoint brings into a folder, by name; nothing is run.

    Returns:
        The folder.
    """
    repository = open_repository(ref)
    for name in repository.files():
        if name.endswith(".py") and "/" not in name:
            write_atomically(folder / name, repository.read(name).decode("utf-8", errors="replace"))
    return folder
