"""tokenizer.json without its merges: nobody here asks for them, and they are most of the file (25 MB of Gemma's 33).

They are recognised in the bytes, which is sound: UTF-8 writes `"` and the backslash as themselves alone, so a quoted
word whose quotes are not escaped is a whole string of the document. What is cut out was read as a list of strings, or
of pairs of strings, up to its closing bracket; a list of any other shape stays in and is parsed with the rest.
"""

import re

from pydantic import JsonValue

from autoadapter.analyze.config import parse_object
from autoadapter.analyze.reading import Evidence

FILE = "tokenizer.json"
SPACE = rb"[ \t\r\n]*+"
STRING = rb'"[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+"'
PAIR = rb"\[%b%b%b,%b%b%b\]" % (SPACE, STRING, SPACE, SPACE, STRING, SPACE)


def _list_of(item: bytes) -> bytes:
    return rb"\[%b(?:%b%b(?:,%b%b%b)*+)?+\]" % (SPACE, item, SPACE, SPACE, item, SPACE)


NAME = re.compile(rb'"merges"')
MERGES = re.compile(rb'"merges"%b:%b(?:%b|%b)' % (SPACE, SPACE, _list_of(STRING), _list_of(PAIR)))
"""Possessive throughout, so it never goes back: its time grows with the file's length and no faster."""


def without_merges(data: bytes) -> bytes:
    """The document with an empty list of merges. Whether the rest is valid JSON is left to the parser."""
    for name in NAME.finditer(data):
        if data[name.start() - 1 : name.start()] == b"\\":
            continue
        if found := MERGES.match(data, name.start()):
            return b"".join((data[: found.start()], b'"merges":[]', data[found.end() :]))
    return data


def tokenizer_document(evidence: Evidence) -> dict[str, JsonValue]:
    """tokenizer.json, read here and not kept; `model.merges` is empty where the file has any.

    Raises:
        BrokenCheckpointError: it is not a JSON object.
    """
    cut = without_merges(evidence.repository.read(FILE))
    return parse_object(cut, evidence.repository.label(FILE))
