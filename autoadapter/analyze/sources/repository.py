"""A model's files by name: what is there, how large, small ones whole, large ones by range."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Protocol

from autoadapter.analyze.sources.byte_source import ByteSource, FileSource
from autoadapter.analyze.sources.links import home_of, require_near
from autoadapter.analyze.text import is_whole, whole_text
from autoadapter.artifacts import Finding, ModelKind, ModelRef
from autoadapter.errors import BrokenCheckpointError, ModelNotFoundError, UserError

MOST_SIDE_FILE_BYTES = 64 * 1024 * 1024
"""Configs and tokenizers are smaller; the largest tokenizer.json in use (Gemma) has 33 MB."""


PART = re.compile(r"(?P<stem>.+)-\d{5}-of-(?P<total>\d{5})\.gguf")
"""A part of a split GGUF model, as llama.cpp's gguf-split names it."""

TEMPLATE_FOLDER = "additional_chat_templates"
"""Where transformers keeps named chat templates beside the default one; the only folder that is looked into."""
MOST_TEMPLATES = 64


def is_named_template(name: str) -> bool:
    """Whether a path is that of a named chat template: `additional_chat_templates/tool_use.jinja`."""
    folder, _, file = name.partition("/")
    return folder == TEMPLATE_FOLDER and file.endswith(".jinja") and "/" not in file


@dataclass(frozen=True)
class FileStat:
    """A file's size in bytes and, on the Hub, its SHA-256 (weights) or git blob id (small files)."""

    bytes: int
    digest: str | None = None
    modified_ns: int | None = None
    """Nanoseconds since 1970 of the last change, on this machine."""


class Repository(Protocol):
    """A model's files."""

    remote: ClassVar[bool]
    """Reading waits for a network, so that several files at once are faster."""

    @property
    def location(self) -> str:
        """The folder, file or Hub id, for messages."""

    def files(self) -> Mapping[str, FileStat]:
        """Files by name relative to the root, forward slashes, sorted by name."""

    def not_files(self) -> Mapping[str, str]:
        """Entries that are neither files nor folders, by name, with what they are: `a broken link`."""

    def read(self, name: str) -> bytes:
        """A small file, whole."""

    def open(self, name: str) -> ByteSource:
        """A file of any size, by range."""

    def label(self, name: str) -> str:
        """What messages call the file."""

    def card_license(self) -> str | None:
        """License that the repository states outside its files, where it can."""

    def notes(self) -> tuple[Finding, ...]:
        """What is worth telling of where the files were read."""


class LocalFolder:
    """A folder in the layout of the Hub. Only the top level counts, as for vLLM's loader."""

    remote: ClassVar[bool] = False

    def __init__(self, folder: Path, *, follow_symlinks: bool = False) -> None:
        """Describe a folder; nothing is read yet.

        Args:
            folder: where it is.
            follow_symlinks: links of it may lead anywhere.
        """
        self._folder = folder
        self._follow = follow_symlinks

    @property
    def location(self) -> str:
        """The folder."""
        return str(self._folder)

    def files(self) -> Mapping[str, FileStat]:
        """See `Repository.files`; listed once."""
        return self._files

    @cached_property
    def _files(self) -> Mapping[str, FileStat]:
        folder = self._folder / TEMPLATE_FOLDER
        templates = self._templates(folder)
        paths = sorted([*(path for path in self._entries() if path.is_file()), *templates])
        unnamed = next((path.name for path in paths if not is_whole(path.name)), None)
        if unnamed is not None:
            raise UserError(
                f"{self.location} holds the file {unnamed!r}, whose name is no UTF-8 text.",
                hint="Rename or remove the file.",
            )
        if not self._follow:
            require_near([*paths, *([folder] if templates else [])], home_of(self._folder), self.location)
        stats = {path.relative_to(self._folder).as_posix(): self.stat(path) for path in paths}
        return {name: stats[name] for name in sorted(stats)}

    @staticmethod
    def _templates(folder: Path) -> list[Path]:
        """Named chat templates; none where the folder is not there or may not be read."""
        try:
            found = sorted(path for path in folder.glob("*.jinja") if path.is_file()) if folder.is_dir() else []
        except OSError:
            return []
        return found[:MOST_TEMPLATES]

    def _entries(self) -> list[Path]:
        try:
            return list(self._folder.iterdir())
        except OSError as error:
            raise unreadable(self._folder, error) from None

    @staticmethod
    def stat(path: Path) -> FileStat:
        """Size and time of an entry."""
        return _stat(path)

    def not_files(self) -> Mapping[str, str]:
        """See `Repository.not_files`."""
        odd = sorted(path for path in self._entries() if not path.is_file() and not path.is_dir())
        return {whole_text(path.name): _what(path) for path in odd}

    def read(self, name: str) -> bytes:
        """See `Repository.read`."""
        return _read_small(self._folder / name)

    def open(self, name: str) -> ByteSource:
        """See `Repository.open`."""
        return FileSource(self._folder / name)

    def label(self, name: str) -> str:
        """The file's path."""
        return str(self._folder / name)

    def card_license(self) -> str | None:
        """None: a folder says nothing beside its files."""
        return None

    def notes(self) -> tuple[Finding, ...]:
        """None."""
        return ()


class GgufFile:
    """One `.gguf` file: weights, config and tokenizer in one."""

    remote: ClassVar[bool] = False

    def __init__(self, path: Path, *, follow_symlinks: bool = False) -> None:
        """Describe a file; nothing is read yet.

        Args:
            path: the file that was named, which may be a link.
            follow_symlinks: the other parts of a split file may be links to anywhere, too.
        """
        self._path = path
        self._follow = follow_symlinks

    @property
    def location(self) -> str:
        """The file."""
        return str(self._path)

    def files(self) -> Mapping[str, FileStat]:
        """That one file, or all parts of a split file when one of them was named."""
        match = PART.fullmatch(self._path.name)
        pattern = f"{_escape(match['stem'])}-?????-of-{match['total']}.gguf" if match else _escape(self._path.name)
        parts = sorted(path for path in self._path.parent.glob(pattern) if path.is_file())
        if not self._follow:
            home = home_of(self._path.resolve().parent)
            require_near((path for path in parts if path != self._path), home, self.location)
        return {path.name: _stat(path) for path in parts}

    def not_files(self) -> Mapping[str, str]:
        """None: a file was named."""
        return {}

    def read(self, name: str) -> bytes:
        """See `Repository.read`."""
        return _read_small(self._path.with_name(name))

    def open(self, name: str) -> ByteSource:
        """See `Repository.open`."""
        return FileSource(self._path.with_name(name))

    def label(self, name: str) -> str:
        """The file's path."""
        return str(self._path.with_name(name))

    def card_license(self) -> str | None:
        """None: the file's own metadata says it."""
        return None

    def notes(self) -> tuple[Finding, ...]:
        """None."""
        return ()


def _stat(path: Path) -> FileStat:
    try:
        stat = path.stat()
    except OSError as error:
        raise unreadable(path, error) from None
    return FileStat(stat.st_size, modified_ns=stat.st_mtime_ns)


def unreadable(path: Path, error: OSError) -> UserError:
    """What to tell when the system refuses a file."""
    return UserError(f"{path} cannot be read: {error.strerror or error}.", hint="Check the permissions of the file.")


def _what(path: Path) -> str:
    if path.is_symlink() and not path.exists():
        return "a broken symbolic link"
    return "a named pipe" if path.is_fifo() else "a socket or device"


def _escape(stem: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in stem)


def _read_small(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            data = file.read(size + 1) if size <= MOST_SIDE_FILE_BYTES else b""
    except OSError as error:
        raise unreadable(path, error) from None
    if max(size, len(data)) > MOST_SIDE_FILE_BYTES:
        raise BrokenCheckpointError(path, f"{max(size, len(data))} bytes are too many for a config or tokenizer file")
    return data


def open_repository(ref: ModelRef) -> Repository:
    """The files of a resolved model.

    Raises:
        ModelNotFoundError: the folder or file is gone, or the Hub does not know the repository.
        UserError: the Hub refuses or cannot be reached.
    """
    if ref.kind is ModelKind.HUB:
        from autoadapter.analyze.sources.hub_cache import open_hub

        return open_hub(ref.location, ref.commit or ref.revision or "main")
    path = Path(ref.location)
    if not path.exists():
        raise ModelNotFoundError(f"{path} is gone.", hint="autoadapter analyze MODEL")
    kind = GgufFile if ref.kind is ModelKind.GGUF_FILE else LocalFolder
    return kind(path, follow_symlinks=ref.follow_symlinks)
