"""GGUF v2 and v3: metadata and tensor infos. Source: the GGUF specification in ggml/docs/gguf.md.

Read front to back through a window that grows, so that a 49k-token vocabulary costs milliseconds and a file on the
Hub costs only the bytes of its header.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import NamedTuple, NoReturn, TypeAlias

from autoadapter.analyze.headers.tensor import TensorInfo
from autoadapter.analyze.sources.byte_source import ByteSource
from autoadapter.errors import BrokenCheckpointError
from autoadapter.tables import read_table

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MOST_DIMENSIONS = 4
DEFAULT_ALIGNMENT = 32
WINDOW_BYTES = 1024 * 1024
MOST_VALUE_BYTES = 64 * 1024 * 1024
"""One text or array of numbers: token scores of the largest vocabularies have a few megabytes."""
MOST_HEADER_BYTES = 512 * 1024 * 1024
MOST_TENSORS = 1_000_000
MOST_ITEMS = 4_000_000
"""Of all arrays of a header together: tokens, scores, types and merges of the largest vocabulary are two million."""
STRING, ARRAY = 8, 9
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""GGUF value type → struct code, little-endian."""
LEAST_BYTES = {STRING: 8, ARRAY: 12, **{kind: struct.calcsize("<" + code) for kind, code in SCALARS.items()}}

GgufScalar: TypeAlias = bool | int | float | str
GgufValue: TypeAlias = GgufScalar | list[GgufScalar]


class GgmlType(NamedTuple):
    """A row of `ggml_types.yaml`."""

    name: str
    block_elements: int
    block_bytes: int


@cache
def ggml_types() -> dict[int, GgmlType]:
    """All known tensor types by id."""
    rows = read_table(Path(__file__).with_name("ggml_types.yaml"))
    return {number: GgmlType(*row) for number, row in rows.items()}


@dataclass(frozen=True)
class GgufHeader:
    """What a GGUF file says before its data."""

    metadata: dict[str, GgufValue]
    tensors: tuple[TensorInfo, ...]
    bytes: int
    """Length of all that, from the file's start."""


class _Cursor:
    """Reads forward, fetching the file in windows."""

    def __init__(self, source: ByteSource) -> None:
        self.source = source
        self.position = 0
        self.items = 0
        self._start = 0
        self._window = b""

    def take(self, count: int) -> bytes:
        begin = self.position - self._start
        if begin + count > len(self._window):
            self._fetch(count)
            begin = 0
        self.position += count
        return self._window[begin : begin + count]

    def _fetch(self, count: int) -> None:
        left = self.source.size - self.position
        if count > MOST_VALUE_BYTES:
            self.broken(f"damaged: a value at byte {self.position} of its header has {count} bytes")
        if self.position > MOST_HEADER_BYTES:
            self.broken(f"damaged: its header goes on beyond byte {MOST_HEADER_BYTES}")
        if count > left:
            self.broken(
                f"truncated: the header needs {self.position + count} bytes and the file has {self.source.size}"
            )
        self._window = self.source.read(self.position, min(left, max(count, WINDOW_BYTES)))
        self._start = self.position

    def number(self, code: str) -> int:
        return int(struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0])

    def text(self) -> str:
        return self.take(self.number("Q")).decode("utf-8", errors="replace")

    def count(self, least_bytes: int, what: str) -> int:
        """A 64-bit count whose items must still fit into the file."""
        number = self.number("Q")
        if number * least_bytes > self.source.size - self.position:
            self.broken(f"truncated or damaged: it announces {number} {what}, more than its size can hold")
        return number

    def broken(self, problem: str) -> NoReturn:
        raise BrokenCheckpointError(self.source.label, problem)


def read_gguf(source: ByteSource, file: str) -> GgufHeader:
    """Metadata and tensors of one file.

    Raises:
        BrokenCheckpointError: truncated, of another version, or not a GGUF file.
    """
    cursor = _Cursor(source)
    if source.size < len(MAGIC) or cursor.take(len(MAGIC)) != MAGIC:
        cursor.broken("not a GGUF file: it does not begin with GGUF")
    version = cursor.number("I")
    if version not in VERSIONS:
        cursor.broken(f"GGUF version {version} (or big-endian); this AutoAdapter reads little-endian versions 2 and 3")
    tensor_count = cursor.count(24, "tensors")
    if tensor_count > MOST_TENSORS:
        cursor.broken(f"damaged: it announces {tensor_count} tensors, more than any model has")
    metadata: dict[str, GgufValue] = {}
    for _ in range(cursor.count(13, "metadata keys")):
        key = cursor.text()
        if key in metadata:
            cursor.broken(f"damaged: it has the key {key!r} twice")
        metadata[key] = _value(cursor, cursor.number("I"), key)
    rows = list(_tensors(cursor, file, tensor_count))
    _check_end(cursor, rows, metadata.get("general.alignment", DEFAULT_ALIGNMENT))
    return GgufHeader(metadata, tuple(info for info, _ in rows), cursor.position)


def _value(cursor: _Cursor, kind: int, key: str) -> GgufValue:
    if kind != ARRAY:
        return _scalar(cursor, kind, key)
    item = cursor.number("I")
    if item == ARRAY or item not in LEAST_BYTES:
        cursor.broken(f"damaged: {key!r} is an array of the unknown type {item}")
    count = cursor.count(LEAST_BYTES[item], f"items of {key!r}")
    cursor.items += count
    if cursor.items > MOST_ITEMS:
        cursor.broken(f"damaged: {key!r} has {count} items, more than any vocabulary")
    if item == STRING:
        return [cursor.text() for _ in range(count)]
    layout = struct.Struct(f"<{count}{SCALARS[item]}")
    return list(layout.unpack(cursor.take(layout.size)))


def _scalar(cursor: _Cursor, kind: int, key: str) -> GgufScalar:
    if kind == STRING:
        return cursor.text()
    if kind not in SCALARS:
        cursor.broken(f"damaged: {key!r} has the unknown type {kind}")
    layout = struct.Struct("<" + SCALARS[kind])
    value: GgufScalar = layout.unpack(cursor.take(layout.size))[0]
    return value


def _tensors(cursor: _Cursor, file: str, count: int) -> Iterator[tuple[TensorInfo, int]]:
    """All of them; a name that is there twice ends the reading at once."""
    names: set[str] = set()
    for _ in range(count):
        info, offset = _tensor(cursor, file)
        if info.name in names:
            cursor.broken(f"damaged: it has the tensor {info.name!r} twice")
        names.add(info.name)
        yield info, offset


def _tensor(cursor: _Cursor, file: str) -> tuple[TensorInfo, int]:
    """A tensor and the offset of its data, relative to the data section."""
    name, dimensions = cursor.text(), cursor.number("I")
    if dimensions > MOST_DIMENSIONS:
        cursor.broken(f"damaged: tensor {name!r} has {dimensions} dimensions")
    sizes = [cursor.number("Q") for _ in range(dimensions)]
    number, offset = cursor.number("I"), cursor.number("Q")
    kind = ggml_types().get(number)
    if kind is None:
        cursor.broken(f"tensor {name!r} has the GGML type {number}, which this AutoAdapter does not know")
    elements = prod(sizes)
    if elements % kind.block_elements:
        cursor.broken(f"damaged: {elements} elements of tensor {name!r} are no whole {kind.name} blocks")
    stored = elements // kind.block_elements * kind.block_bytes
    return TensorInfo(name, kind.name, tuple(reversed(sizes)), stored, file), offset


def _check_end(cursor: _Cursor, rows: list[tuple[TensorInfo, int]], alignment: GgufValue) -> None:
    if not isinstance(alignment, int) or alignment <= 0:
        cursor.broken(f"damaged: general.alignment is {alignment!r}")
    _check_apart(cursor, rows)
    start = -(-cursor.position // alignment) * alignment
    end = max((start + offset + info.bytes for info, offset in rows), default=0)
    if end > cursor.source.size:
        cursor.broken(f"truncated: its tensors end at byte {end} and the file has {cursor.source.size}")


def _check_apart(cursor: _Cursor, rows: list[tuple[TensorInfo, int]]) -> None:
    """No byte in two tensors: llama.cpp refuses such files, too."""
    end, before = 0, ""
    for info, offset in sorted(rows, key=lambda row: row[1]):
        if info.bytes and offset < end:
            cursor.broken(f"damaged: the tensors {before!r} and {info.name!r} overlap")
        end, before = (offset + info.bytes, info.name) if info.bytes else (end, before)
