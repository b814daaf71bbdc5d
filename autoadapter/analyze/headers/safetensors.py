"""safetensors: 8 bytes of length, JSON, data.

Checks follow the format's own loader (safetensors 0.8, `SafeTensors::read_metadata` and `Metadata::validate`): header
of at most 100 MB, offsets in order without holes, shape times dtype equal to the span, last offset equal to the file.
"""

import json
from math import prod
from typing import NoReturn

from autoadapter.analyze.headers.tensor import TensorInfo
from autoadapter.analyze.sources.byte_source import ByteSource
from autoadapter.analyze.text import is_bloated, is_whole, unique_pairs
from autoadapter.errors import BrokenCheckpointError

MOST_HEADER_BYTES = 100_000_000
LENGTH_BYTES = 8
MOST_DIMENSIONS = 64
FIELDS = (b"dtype", b"shape", b"data_offsets")
INTEGERS = {int}
ALIKE_NUMBERS = (b"true", b"false")
"""Words of JSON that Python takes to equal 1 and 0."""
DTYPE_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64, "C64": 64,
}  # fmt: skip


def read_safetensors(source: ByteSource, file: str) -> tuple[TensorInfo, ...]:
    """Tensors of one file, in the order of their data.

    Raises:
        BrokenCheckpointError: truncated, or not a safetensors file.
    """
    header, data, data_start = _header(source)
    header.pop("__metadata__", None)
    tensors = None if any(word in data for word in ALIKE_NUMBERS) else _alike(header, file)
    if tensors is None:
        tensors = _one_by_one(source, header, file)
    _check_end(source, data_start + sum(info.bytes for info in tensors))
    return tensors


def _alike(header: dict[str, object], file: str) -> tuple[TensorInfo, ...] | None:
    """Tensors of a header in the order of its data, as good as all are; None for any other, sound or not.

    A hundred thousand tensors have a dozen shapes, and what was checked of one holds for those that are equal to it.
    """
    checked: dict[object, TensorInfo] = {}
    found, position = [], 0
    try:
        for name, row in header.items():
            dtype, shape, (begin, end) = row["dtype"], tuple(row["shape"]), row["data_offsets"]  # type: ignore[index]
            like = checked.get((dtype, shape))
            if like is None:
                like = checked[dtype, shape] = TensorInfo(name, dtype, shape, _bytes(dtype, shape), file)
            if begin != position or end != position + like.bytes or not is_whole(name):
                return None
            position = end
            found.append(TensorInfo(name, like.dtype, like.shape, like.bytes, file))
    except (KeyError, TypeError, ValueError):
        return None
    return tuple(found)


def _bytes(dtype: str, shape: tuple[int, ...]) -> int:
    """Of a tensor.

    Raises:
        KeyError: an unknown dtype.
        ValueError: what has no such size, or a shape of anything but whole numbers.
    """
    if len(shape) > MOST_DIMENSIONS or {*map(type, shape)} - INTEGERS or min(shape, default=0) < 0:
        raise ValueError
    whole, rest = divmod(prod(shape) * DTYPE_BITS[dtype], 8)
    if rest:
        raise ValueError
    return whole


def _one_by_one(source: ByteSource, header: dict[str, object], file: str) -> tuple[TensorInfo, ...]:
    """Tensors in any order, or the first fault."""
    rows = sorted((_row(source, name, row, file) for name, row in header.items()), key=_place)
    position = 0
    for begin, end, info in rows:
        if begin != position:
            _broken(source, f"tensor {info.name!r} begins at byte {begin} of the data instead of {position}")
        position = end
    return tuple(info for _, _, info in rows)


def _place(row: tuple[int, int, TensorInfo]) -> tuple[int, int]:
    return row[:2]


def safetensors_header_bytes(source: ByteSource) -> int:
    """Length of the header with its length field, from the file's start.

    Raises:
        BrokenCheckpointError: truncated, or not a safetensors file.
    """
    if source.size < LENGTH_BYTES:
        _broken(source, f"not a safetensors file: {source.size} bytes cannot hold a header")
    length = int.from_bytes(source.read(0, LENGTH_BYTES), "little")
    if length > MOST_HEADER_BYTES or length < 2:
        _broken(source, "not a safetensors file: its first 8 bytes are not the length of a header")
    if LENGTH_BYTES + length > source.size:
        _broken(source, f"truncated: the header needs {LENGTH_BYTES + length} bytes and the file has {source.size}")
    return LENGTH_BYTES + length


def _header(source: ByteSource) -> tuple[dict[str, object], bytes, int]:
    end = safetensors_header_bytes(source)
    data = source.read(LENGTH_BYTES, end - LENGTH_BYTES)
    if is_bloated(data):
        _broken(source, "its header holds more entries than any checkpoint")
    try:
        text = data.decode("utf-8")
        document = json.loads(text, parse_float=str)  # no field has one, and 2.0 must not equal 2
        if isinstance(document, dict) and _may_repeat(data, len(document) - ("__metadata__" in document)):
            document = json.loads(text, parse_float=str, object_pairs_hook=unique_pairs)
    except KeyError as error:
        _broken(source, f"its header has the entry {error.args[0]!r} twice")
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        _broken(source, "not a safetensors file: the header is not a JSON object")
    return document, data, end


def _may_repeat(data: bytes, tensors: int) -> bool:
    """Whether an entry may be there twice: a hook on every object would double the time of reading."""
    return any(data.count(b'"' + field + b'"') != tensors for field in FIELDS)


def _row(source: ByteSource, name: str, row: object, file: str) -> tuple[int, int, TensorInfo]:
    """A tensor with the ends of its data. Plain checks: a validator's objects would cost most of the reading."""
    try:
        dtype, shape, (begin, end) = row["dtype"], row["shape"], row["data_offsets"]  # type: ignore[index]
    except (KeyError, TypeError, ValueError):
        dtype = shape = begin = end = None
    counts = (*shape, begin, end) if type(shape) is list and len(shape) <= MOST_DIMENSIONS else (None,)
    if type(dtype) is not str or not is_whole(name) or {*map(type, counts)} != INTEGERS or min(counts) < 0:
        _broken(source, f"tensor {name!r} has no valid dtype, shape and data_offsets")
    bits = DTYPE_BITS.get(dtype)
    if bits is None:
        _broken(source, f"tensor {name!r} has the unknown dtype {dtype!r}")
    if end < begin or prod(shape) * bits != 8 * (end - begin):
        _broken(source, f"tensor {name!r} of shape {shape} and dtype {dtype} cannot fill {end - begin} bytes")
    return begin, end, TensorInfo(name, dtype, tuple(shape), end - begin, file)


def _check_end(source: ByteSource, expected: int) -> None:
    if source.size < expected:
        _broken(source, f"truncated: the header describes {expected} bytes and the file has {source.size}")
    if source.size > expected:
        _broken(source, f"{source.size - expected} bytes follow the last tensor: the file was not written whole")


def _broken(source: ByteSource, problem: str) -> NoReturn:
    raise BrokenCheckpointError(source.label, problem)
