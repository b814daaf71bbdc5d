"""Where an interpreter looks for packages, so that they can be looked at as files, without importing them."""

import subprocess
import sys
from functools import cache
from pathlib import Path

SECONDS = 30
_ASK = "import sys; print(*sys.path, sep=chr(10))"
"""`sys` is built in: nothing that lies in the current folder is imported."""


@cache
def search_path(python: Path) -> tuple[Path, ...] | None:
    """Folders of an interpreter's `sys.path` that exist (20 ms); None when it does not run."""
    if python == Path(sys.executable):
        return _folders(sys.path)
    asked = [str(python), "-c", _ASK]
    try:
        done = subprocess.run(
            asked, capture_output=True, text=True, errors="replace", check=True, timeout=SECONDS, encoding="utf-8"
        )
        return _folders(done.stdout.splitlines())
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def find_package(name: str, folders: tuple[Path, ...]) -> Path | None:
    """The folder or file of a top-level package; None when none of the folders has it."""
    for folder in folders:
        if (folder / name).is_dir():
            return folder / name
        for path in (folder / f"{name}.py", *folder.glob(f"{name}.*.so")):
            if path.is_file():
                return path
    return None


def _folders(paths: list[str]) -> tuple[Path, ...]:
    return tuple(path for path in map(Path, paths) if path.name and path.is_dir())
