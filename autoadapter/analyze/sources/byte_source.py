"""Bytes by offset: the one thing that header parsers ask for, whether a file is here or behind HTTP."""

import io
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from autoadapter.errors import BrokenCheckpointError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class ByteSource(Protocol):
    """Random access to one file. `read` gives exactly `length` bytes or raises."""

    @property
    def label(self) -> str:
        """What error messages call the file."""

    @property
    def size(self) -> int:
        """Bytes of the whole file."""

    def read(self, offset: int, length: int) -> bytes:
        """Bytes `[offset, offset + length)`.

        Raises:
            BrokenCheckpointError: the range reaches beyond the end of the file.
        """


def require_range(source: ByteSource, offset: int, length: int) -> None:
    """Raise BrokenCheckpointError unless `[offset, offset + length)` lies inside the file."""
    if offset < 0 or length < 0 or offset + length > source.size:
        raise BrokenCheckpointError(
            source.label, f"truncated: byte {offset + length} is needed and the file has {source.size}"
        )


class FileSource:
    """A file on this machine."""

    def __init__(self, path: Path, label: str | None = None) -> None:
        self._path = path
        self._label = label or str(path)
        try:
            self._size = path.stat().st_size
        except OSError as error:
            raise self._unreadable(error) from None

    @property
    def label(self) -> str:
        """The file's path."""
        return self._label

    @property
    def size(self) -> int:
        """Bytes of the file when it was opened."""
        return self._size

    def read(self, offset: int, length: int) -> bytes:
        """See `ByteSource.read`."""
        require_range(self, offset, length)
        try:
            with self._path.open("rb") as file:
                file.seek(offset)
                data = file.read(length)
        except OSError as error:
            raise self._unreadable(error) from None
        if len(data) != length:
            raise BrokenCheckpointError(self._label, "became shorter while it was read")
        return data

    def _unreadable(self, error: OSError) -> BrokenCheckpointError:
        why = f"cannot be read ({error.strerror or error})"
        return BrokenCheckpointError(self._label, why, hint="Check the permissions of the file.")


class BytesSource:
    """Bytes in memory: for small files that were fetched whole, and for tests."""

    def __init__(self, data: bytes, label: str) -> None:
        self._data = data
        self.label = label

    @property
    def size(self) -> int:
        """Bytes held."""
        return len(self._data)

    def read(self, offset: int, length: int) -> bytes:
        """See `ByteSource.read`."""
        require_range(self, offset, length)
        return self._data[offset : offset + length]


class SourceFile(io.RawIOBase):
    """A ByteSource as a read-only file object, for the standard library's zip reader."""

    def __init__(self, source: ByteSource) -> None:
        super().__init__()
        self._source = source
        self._position = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """Current offset in bytes."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move as `io.RawIOBase.seek` does; a negative target is an OSError, as for a real file."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._source.size}[whence]
        if base + offset < 0:
            raise OSError(f"seek to {base + offset}")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Fill `buffer` from the current offset; fewer bytes only at the end of the file."""
        view = memoryview(buffer).cast("B")
        count = max(0, min(len(view), self._source.size - self._position))
        view[:count] = self._source.read(self._position, count) if count else b""
        self._position += count
        return count
