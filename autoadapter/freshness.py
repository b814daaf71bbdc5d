"""How the pipeline tells that an input is unchanged and that an output is still what a stage wrote."""

import hashlib
from pathlib import Path

from autoadapter import __version__
from autoadapter.artifacts import AdapterBundle, OptimizedModel
from autoadapter.rendering import templates_dir


def file_digest(path: Path | None) -> str | None:
    """SHA-256 of a file, or of all files of a folder with their names; None for nothing."""
    if path is None or not path.exists():
        return None
    total = hashlib.sha256()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            total.update(f"{file.name}\0".encode() + file.read_bytes())
    return total.hexdigest()


def is_as_rendered(adapter: AdapterBundle, path: Path) -> bool:
    """Whether every file of an adapter is what a template wrote; `path` is that of `adapter.json`."""
    return all(sha256_of(path.parent / file.path) == file.sha256 for file in adapter.files)


def sha256_of(path: Path) -> str | None:
    """SHA-256 of a file, None where there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def has_its_weights(optimized: OptimizedModel, _: Path) -> bool:
    """Whether every file of a checkpoint is there in its size."""
    folder = Path(optimized.model_path)
    return all(
        (folder / name).is_file() and (folder / name).stat().st_size == size for name, size, _ in optimized.files
    )


def tool_digest() -> str:
    """Version and templates decide what is rendered; a changed template makes a stage stale even within one version."""
    total = hashlib.sha256(__version__.encode())
    for path in sorted(templates_dir().rglob("*.j2")):
        total.update(path.read_bytes())
    return total.hexdigest()
