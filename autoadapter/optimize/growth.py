"""Progress of a download, seen from the disk: works with any downloader and any of its releases."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autoadapter.progress import Progress

PERIOD_SECONDS = 1.0


def tree_bytes(folder: Path) -> int:
    """Bytes of the plain files below `folder`, links not followed; 0 while it does not exist."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += 0 if path.is_symlink() or not path.is_file() else path.stat().st_size
        except OSError:
            continue  # renamed while we looked
    return total


@contextmanager
def watch_growth(folder: Path, size: int, text: str, progress: Progress) -> Iterator[None]:
    """Tell how much of `size` bytes has arrived below `folder`, once a second while the block runs."""
    done = threading.Event()

    def look() -> None:
        while not done.wait(PERIOD_SECONDS):
            arrived = min(tree_bytes(folder), size)
            progress(f"{text}: {arrived / 1e6:.0f} of {size / 1e6:.0f} MB", arrived / size if size else None)

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join(timeout=5.0)
