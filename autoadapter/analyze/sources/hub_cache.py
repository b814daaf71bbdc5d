"""The Hub, or what an earlier download of it left on this machine when it cannot be asked."""

import re
from functools import cache
from pathlib import Path
from typing import Protocol

from autoadapter.analyze.sources.hub import HubRepository, HubUnreachableError
from autoadapter.analyze.sources.repository import FileStat, LocalFolder, Repository
from autoadapter.artifacts import Finding, Level

DIGEST = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class Committed(Repository, Protocol):
    """A repository at a commit."""

    @property
    def commit(self) -> str:
        """40 hex digits."""


class CachedSnapshot(LocalFolder):
    """A snapshot in the Hugging Face cache. Its blobs are named by the digests that the Hub lists."""

    def __init__(self, repo_id: str, folder: Path) -> None:
        super().__init__(folder)
        self._repo_id = repo_id

    @property
    def commit(self) -> str:
        """The commit that the snapshot is of."""
        return self._folder.name

    @staticmethod
    def stat(path: Path) -> FileStat:
        """Size, and as digest the name of the blob; no time, so that it equals what the Hub lists."""
        name = path.resolve().name
        return FileStat(LocalFolder.stat(path).bytes, name if DIGEST.fullmatch(name) else None)

    def notes(self) -> tuple[Finding, ...]:
        """Which snapshot was read, and that the Hub was not asked."""
        message = f"The Hub was not asked: {self._repo_id} was read from the local cache, snapshot {self.commit}."
        hint = "Online, repeat the command to see whether the model has changed."
        source = str(self._folder)
        return (Finding(code="source.cached", level=Level.INFO, message=message, hint=hint, source=source),)


def open_hub(repo_id: str, revision: str) -> Committed:
    """The repository on the Hub; where the Hub may not or cannot be asked, its cached snapshot.

    Args:
        repo_id: `owner/name`.
        revision: branch, tag or commit.

    Raises:
        HubUnreachableError: and the cache does not have it.
        ModelNotFoundError: the Hub does not know the repository.
        UserError: the Hub refuses.
    """
    repository = HubRepository(repo_id, revision)
    try:
        _ask(repository)
    except HubUnreachableError:
        folder = _snapshot(repo_id, revision)
        if folder is None:
            raise
        return CachedSnapshot(repo_id, folder)
    return repository


def _ask(repository: HubRepository) -> str:
    return repository.commit


@cache
def _snapshot(repo_id: str, revision: str) -> Path | None:
    """The snapshot's folder, None when the cache has none."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(repo_id, revision=revision, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError, OSError):
        return None
