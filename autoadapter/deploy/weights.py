"""Weights by reference: what must be where, and whether it is."""

import hashlib
import json
from pathlib import Path

from autoadapter.artifacts import BundleFile, OptimizedModel, WeightsRef
from autoadapter.deploy.names import checksum_line
from autoadapter.errors import BrokenCheckpointError, WorkspaceError
from autoadapter.progress import Progress, silent

CHEAP_BYTES = 2 * 1024**3
"""Up to here `up` hashes the weights every time: a few seconds."""
_CHUNK = 1 << 20


def reference(optimized: OptimizedModel) -> WeightsRef:
    """The checkpoint's folder and what each of its files must be."""
    files = sorted(optimized.files)
    return WeightsRef(
        path=optimized.model_path,
        files=tuple(BundleFile(path=name, bytes=size, sha256=digest) for name, size, digest in files),
    )


def checksum_file(weights: WeightsRef) -> str:
    """Text of `weights.sha256`, for `sha256sum -c` in the folder with the weights."""
    return "".join(checksum_line(file.sha256, file.path) for file in weights.files)


def require_present(weights: WeightsRef) -> None:
    """Names and sizes; reads no weights.

    Raises:
        WorkspaceError: the folder is gone.
        BrokenCheckpointError: a file is missing or has another size.
    """
    folder = Path(weights.path)
    if not folder.is_dir():
        raise WorkspaceError(f"The weights folder {folder} does not exist.", hint="autoadapter optimize")
    for file in weights.files:
        path = folder / file.path
        if not path.is_file():
            raise BrokenCheckpointError(path, "it is missing", hint="autoadapter optimize --force")
        if (found := path.stat().st_size) != file.bytes:
            problem = f"it has {found} bytes instead of {file.bytes}"
            raise BrokenCheckpointError(path, problem, hint="autoadapter optimize --force")


def require_intact(weights: WeightsRef, progress: Progress = silent) -> None:
    """Names, sizes and SHA-256; reads every byte.

    Raises:
        WorkspaceError: the folder is gone.
        BrokenCheckpointError: a file is not what was tested.
    """
    require_present(weights)
    total = sum(file.bytes for file in weights.files) or 1
    done = 0
    for file in weights.files:
        progress(f"hashing {file.path}", done / total)
        path = Path(weights.path) / file.path
        if sha256_of(path) != file.sha256:
            raise BrokenCheckpointError(path, "its SHA-256 is not what was tested", hint="autoadapter optimize --force")
        done += file.bytes


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            total.update(piece)
    return total.hexdigest()


def has_chat_template(folder: Path) -> bool:
    """Whether the model brings a chat template: a file, or a field of `tokenizer_config.json`."""
    if (folder / "chat_template.jinja").is_file() or (folder / "chat_template.json").is_file():
        return True
    try:
        settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(settings, dict) and bool(settings.get("chat_template"))
