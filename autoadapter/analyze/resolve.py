"""`MODEL` as the user types it → which model: a folder, a GGUF file, or a Hub repository at a commit."""

import os
from pathlib import Path

from autoadapter.analyze.headers.shards import NOT_WEIGHTS
from autoadapter.analyze.side_files import CONFIG
from autoadapter.analyze.stage import no_config
from autoadapter.analyze.text import is_whole
from autoadapter.artifacts import ModelKind, ModelRef
from autoadapter.artifacts.model_ref import HUB_ID
from autoadapter.errors import ModelNotFoundError, UserError

GGUF = ".gguf"


def resolve_model(text: str, *, revision: str | None = None) -> ModelRef:
    """What the user means by `text`. What exists here wins over the Hub.

    Args:
        text: a folder, a `.gguf` file, or a Hub id.
        revision: branch, tag or commit of a Hub model.

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
        return _local(Path(os.path.abspath(path)))  # noqa: PTH100  (symbolic links keep the name that the user knows)
    if not HUB_ID.fullmatch(text) or text.endswith(GGUF):
        raise ModelNotFoundError(
            f"{text!r} is neither a folder or .gguf file that exists nor a Hub id of the form owner/name.",
            hint="Check the path, or name a model on the Hub: autoadapter analyze HuggingFaceTB/SmolLM2-135M-Instruct",
        )
    return _hub(text, revision)


def _local(path: Path) -> ModelRef:
    if not is_whole(str(path)):
        raise UserError(f"The path {str(path)!r} is no UTF-8 text.", hint="Rename the file or folder.")
    if path.is_file():
        if path.suffix != GGUF:
            raise UserError(f"{path} is a file, but not a .gguf file.", hint="Name the folder that holds it.")
        return ModelRef(kind=ModelKind.GGUF_FILE, location=str(path))
    if (path / CONFIG).is_file():
        return ModelRef(kind=ModelKind.FOLDER, location=str(path))
    files = sorted(file for file in path.glob(f"*{GGUF}") if not NOT_WEIGHTS.fullmatch(file.name))
    if len(files) != 1:
        raise no_config(str(path))
    return ModelRef(kind=ModelKind.GGUF_FILE, location=str(files[0]))


def _hub(repo_id: str, revision: str | None) -> ModelRef:
    from autoadapter.analyze.sources.hub import HubRepository

    repository = HubRepository(repo_id, revision or "main")
    return ModelRef(kind=ModelKind.HUB, location=repo_id, revision=revision, commit=repository.commit)
