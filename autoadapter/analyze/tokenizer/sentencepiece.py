"""Pieces of a SentencePiece model: a protobuf whose first field repeats.

Source: google/sentencepiece `src/sentencepiece_model.proto` (ModelProto.pieces = 1; SentencePiece.piece = 1).
"""

from collections.abc import Iterator

PIECES_TAG = 0x0A
"""Field 1, length-delimited: both of the model and of a piece."""
MOST_PIECES = 2**21
CONTINUES = 0x80


def pieces(data: bytes) -> tuple[str, ...] | None:
    """Texts by id; None when the bytes are no such model."""
    try:
        found = tuple(_pieces(data))
    except (IndexError, UnicodeDecodeError):
        return None
    return found or None


def _pieces(data: bytes) -> Iterator[str]:
    """Up to the first field that is no piece: writers put them first."""
    at, count = 0, 0
    while at < len(data) and data[at] == PIECES_TAG and count < MOST_PIECES:
        length, start = _varint(data, at + 1)
        at, count = start + length, count + 1
        if at > len(data) or data[start] != PIECES_TAG:
            raise IndexError
        size, text = _varint(data, start + 1)
        if text + size > at:
            raise IndexError
        yield data[text : text + size].decode("utf-8")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of at most four bytes, and the offset behind it.

    Raises:
        IndexError: it is longer, or the data ends.
    """
    value = 0
    for step in range(4):
        byte = data[at + step]
        value |= (byte & ~CONTINUES) << 7 * step
        if not byte & CONTINUES:
            return value, at + step + 1
    raise IndexError
