"""Where outside text enters: JSON in the one encoding that it has, and no text that cannot be written again."""

import json
import re
from collections import Counter
from collections.abc import Iterable

from pydantic import JsonValue
from pydantic_core import from_json

from autoadapter.errors import BrokenCheckpointError

ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
SURROGATE = re.compile("[\ud800-\udfff]")
MOST_CONTAINERS = 2_000_000
MOST_VALUES = 6_000_000
"""The largest tokenizer in use (262,144 tokens, 514,906 merges) has half a million lists and three million commas."""
REPLACEMENT = "\ufffd"
ENCODINGS = {"utf-8-sig": "UTF-8 with a byte order mark"}
WORDS = {dict: "object", list: "list", str: "text", bool: "truth value", type(None): "null"}


def load_json(data: bytes, file: str) -> JsonValue:
    """A JSON document. Halves of surrogate pairs, which no text may hold alone, become U+FFFD.

    Raises:
        BrokenCheckpointError: it is none; the encoding or the position of the first fault is named.
    """
    encoding = json.detect_encoding(data)
    if encoding != "utf-8" and data:
        name = ENCODINGS.get(encoding, encoding.upper())
        raise BrokenCheckpointError(
            file, f"is encoded as {name}, and transformers reads UTF-8 alone", hint="Save the file as plain UTF-8."
        )
    if is_bloated(data):
        raise BrokenCheckpointError(file, "holds more lists, objects or values than any config or tokenizer")
    try:
        document: JsonValue = _parsed(data)
        return _whole(document) if ESCAPED_SURROGATE.search(data) else document
    except json.JSONDecodeError as error:
        raise BrokenCheckpointError(
            file, f"not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except (ValueError, RecursionError):
        raise BrokenCheckpointError(file, "not valid JSON: it is not UTF-8 text of sane depth") from None


def _parsed(data: bytes) -> JsonValue:
    """By pydantic's parser, in half the time and without a second copy of the text; what it refuses, json explains."""
    try:
        document: JsonValue = from_json(data, cache_strings="keys")
    except ValueError:
        document = json.loads(data.decode("utf-8"))
    return document


def is_bloated(data: bytes) -> bool:
    """Whether JSON text could unpack into gigabytes; counting signs takes no memory."""
    return data.count(b"[") + data.count(b"{") > MOST_CONTAINERS or data.count(b",") > MOST_VALUES


def json_word(value: JsonValue) -> str:
    """What kind of JSON value it is, in words: `a JSON object`, `a JSON list`, `a JSON number`."""
    return f"a JSON {WORDS.get(type(value), 'number')}"


def whole_text(text: str) -> str:
    """The text with U+FFFD for each half of a surrogate pair."""
    return SURROGATE.sub(REPLACEMENT, text)


def is_whole(text: str) -> bool:
    """Whether the text can be written as UTF-8."""
    return text.isascii() or SURROGATE.search(text) is None


def unique_pairs(pairs: Iterable[tuple[str, object]]) -> dict[str, object]:
    """`object_pairs_hook` that refuses a key which is there twice.

    Raises:
        KeyError: with the key.
    """
    rows = list(pairs)
    document = dict(rows)
    if len(document) < len(rows):
        counts = Counter(key for key, _ in rows)
        raise KeyError(next(key for key, count in counts.items() if count > 1))
    return document


def _whole(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {whole_text(key): _whole(item) for key, item in value.items()}
    return value
