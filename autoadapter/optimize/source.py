"""Where the checkpoint lies on this machine; a Hub model is downloaded into the Hub's own cache."""

import os
from pathlib import Path

from autoadapter.artifacts import ModelKind, ModelProfile
from autoadapter.errors import ModelNotFoundError
from autoadapter.optimize.capacity import require_disk
from autoadapter.optimize.growth import watch_growth
from autoadapter.progress import Progress
from autoadapter.rendering.writer import explain_storage_errors

COMPANIONS = ("*.json", "*.jinja", "*.txt", "*.model", "*.tiktoken")


def local_source(profile: ModelProfile, *, trust_remote_code: bool, progress: Progress) -> Path:
    """The folder of the checkpoint, or its GGUF file.

    Raises:
        ModelNotFoundError: a file of weights that `analyze` saw is gone, or the Hub does not give it.
        StorageError: the cache's disk is full.
    """
    ref = profile.ref
    if ref.kind is ModelKind.HUB:
        folder = _download(profile, trust_remote_code, progress)
    else:
        folder = Path(ref.location)
    path = folder if folder.is_file() else _within(folder, profile)
    if not path.exists():
        raise ModelNotFoundError(f"{path} is gone since `analyze` saw it.", hint="autoadapter analyze --force")
    return path


def _within(folder: Path, profile: ModelProfile) -> Path:
    """A GGUF is one file; other formats are their folder."""
    gguf = profile.tensors.format == "gguf" and len(profile.tensors.files) == 1
    return folder / profile.tensors.files[0].name if gguf else folder


def _download(profile: ModelProfile, trust_remote_code: bool, progress: Progress) -> Path:
    cached = _snapshot(profile, trust_remote_code, local_files_only=True)
    if cached is not None and _is_complete(cached, profile):
        return cached
    from huggingface_hub import constants

    size = sum(file.bytes for file in profile.tensors.files)
    text = f"downloading {profile.ref.location}"
    require_disk(Path(constants.HF_HUB_CACHE), size, text.capitalize())
    cache = Path(constants.HF_HUB_CACHE) / f"models--{profile.ref.location.replace('/', '--')}"
    with watch_growth(cache, size, text, progress), explain_storage_errors(cache):
        fetched = _snapshot(profile, trust_remote_code, local_files_only=False)
    if fetched is None or not _is_complete(fetched, profile):
        hint = "Repeat the command to resume, or download the folder yourself and name it."
        raise ModelNotFoundError(f"The download of {profile.ref.location} is not complete.", hint=hint)
    return fetched


def _snapshot(profile: ModelProfile, trust_remote_code: bool, *, local_files_only: bool) -> Path | None:
    """The Hub's folder; None when it is asked of the cache alone and not there."""
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    ref = profile.ref
    names = [file.name for file in profile.tensors.files]
    try:
        found = snapshot_download(
            ref.location,
            revision=ref.commit or ref.revision,
            allow_patterns=[*names, *COMPANIONS, *(["*.py"] if trust_remote_code else [])],
            local_files_only=local_files_only,
            cache_dir=constants.HF_HUB_CACHE,
            endpoint=os.environ.get("HF_ENDPOINT") or None,
        )
    except Exception as error:  # its errors and its HTTP client's have no common root across releases
        if local_files_only:
            return None
        if isinstance(error, OSError) and error.errno:
            raise
        why = (str(error).strip().splitlines() or [type(error).__name__])[0]
        hint = "Check the network, HF_ENDPOINT and HF_TOKEN, or download the folder yourself and name it."
        raise ModelNotFoundError(f"The Hub does not give {ref.location}: {why}", hint=hint) from None
    return Path(str(found))


def _is_complete(folder: Path, profile: ModelProfile) -> bool:
    return all(
        (folder / file.name).is_file() and (folder / file.name).stat().st_size == file.bytes
        for file in profile.tensors.files
    )
