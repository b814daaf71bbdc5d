"""`MODEL` as the user types it → which model: a folder, a GGUF file, or a Hub repository at a commit."""

import difflib
import os
from collections.abc import Collection
from pathlib import Path

from autoadapter.analyze.headers.ggml import ggml_error, is_ggml
from autoadapter.analyze.headers.shards import NOT_WEIGHTS
from autoadapter.analyze.side_files import CONFIG
from autoadapter.analyze.sources import FileSource, LocalFolder
from autoadapter.analyze.stage import no_config
from autoadapter.analyze.text import is_whole
from autoadapter.artifacts import ModelKind, ModelRef
from autoadapter.artifacts.model_ref import HUB_ID
from autoadapter.errors import AutoadapterError, ModelNotFoundError, UserError

GGUF = ".gguf"
EXAMPLE = "autoadapter analyze HuggingFaceTB/SmolLM2-135M-Instruct"
LIKENESS, MOST_ENTRIES = 0.75, 10_000
"""How alike a name must be to be asked for (difflib's ratio), among at most so many entries."""


def resolve_model(text: str, *, revision: str | None = None, follow_symlinks: bool = False) -> ModelRef:
    """What the user means by `text`. What exists here wins over the Hub.

    Args:
        text: a folder, a `.gguf` file, or a Hub id.
        revision: branch, tag or commit of a Hub model.
        follow_symlinks: links in a folder may lead out of it.

    Raises:
        ModelNotFoundError: neither here nor on the Hub.
        UserError: a folder or file that is no model, or `revision` with a local model.
    """
    path = Path(os.path.expanduser(text.strip()))  # noqa: PTH111  (an unknown ~user stays text, which Path.expanduser refuses)
    if text.strip() and path.exists():
        if revision is not None:
            raise UserError(
                f"--revision {revision} has no meaning for {path}, which is on this machine.",
                hint="Leave --revision out.",
            )
        return _local(Path(os.path.abspath(path)), follow_symlinks)  # noqa: PTH100  (links keep the name that the user knows)
    near = nearest(path)
    if not HUB_ID.fullmatch(text) or text.endswith(GGUF):
        raise ModelNotFoundError(
            f"{text!r} is neither a folder or .gguf file that exists nor a Hub id of the form owner/name.",
            hint=_asked(near, "Check the path, or name a model on the Hub: " + EXAMPLE),
        )
    try:
        return _hub(text, revision)
    except UserError as error:
        error.hint = _asked(near, error.hint)
        raise


def nearest(path: Path) -> str | None:
    """What the user may have meant by a path that leads nowhere, as he would type it: `./SmolLM2-135M-Instruct`.

    Only folders and GGUF files beside it are looked at; capitals do not count.
    """
    folder = path.parent if path.parent.is_dir() else Path()
    try:
        entries = [entry for entry in folder.iterdir() if entry.suffix == GGUF or entry.is_dir()][:MOST_ENTRIES]
    except (OSError, ValueError):
        return None
    names = {entry.name.casefold(): entry.name for entry in entries if is_whole(entry.name)}
    near = difflib.get_close_matches(path.name.casefold(), names, n=1, cutoff=LIKENESS)
    if not near:
        return None
    found = str(folder / names[near[0]])
    return found if found.startswith(("/", ".")) else f"./{found}"


def _asked(near: str | None, hint: str | None) -> str | None:
    return " ".join(part for part in (f"Did you mean {near}?" if near else None, hint) if part) or None


def _readable(path: Path) -> str:
    """How a path becomes text: another name, or a locale that knows its letters."""
    try:
        os.fsencode(path).decode("utf-8")
    except UnicodeDecodeError:
        return "Rename the file or folder."
    return "Set a UTF-8 locale and repeat the command: export LC_ALL=C.UTF-8"


def _local(path: Path, follow: bool) -> ModelRef:
    if not is_whole(str(path)):
        raise UserError(f"The path {str(path)!r} is no UTF-8 text.", hint=_readable(path))
    if path.is_file():
        if path.suffix != GGUF:
            raise UserError(f"{path} is a file, but not a .gguf file.", hint="Name the folder that holds it.")
        return ModelRef(kind=ModelKind.GGUF_FILE, location=str(path), follow_symlinks=follow)
    if (path / CONFIG).is_file():
        return ModelRef(kind=ModelKind.FOLDER, location=str(path), follow_symlinks=follow)
    listed = LocalFolder(path, follow_symlinks=follow).files()
    files = [name for name in listed if name.endswith(GGUF) and not NOT_WEIGHTS.fullmatch(name)]
    if len(files) != 1:
        raise without_config(path, listed)
    return ModelRef(kind=ModelKind.GGUF_FILE, location=str(path / files[0]), follow_symlinks=follow)


def _hub(repo_id: str, revision: str | None) -> ModelRef:
    from autoadapter.analyze.sources.hub_cache import open_hub

    repository = open_hub(repo_id, revision or "main")
    return ModelRef(kind=ModelKind.HUB, location=repo_id, revision=revision, commit=repository.commit)


def without_config(path: Path, names: Collection[str]) -> AutoadapterError:
    """What to tell of a folder that has no config.json: GGML dumps end here."""
    ggml = next((name for name in names if is_ggml(FileSource(path / name))), None)
    return ggml_error(path / ggml) if ggml else no_config(str(path), names, LocalFolder(path).read)
