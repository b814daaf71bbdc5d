"""Large tokenizer documents are cut before they are parsed, and nothing that is asked for changes by it."""

import json
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from autoadapter.analyze import analyze, resolve_model
from autoadapter.analyze.tokenizer.document import without_merges
from autoadapter.analyze.tokenizer.sentencepiece import pieces
from autoadapter.errors import BrokenCheckpointError
from tests.unit.analyze.analyze_files import LLAMA_SHAPES, safetensors_bytes, write_model

TEXTS = st.text(st.sampled_from(string.ascii_letters + '"\\[]{}:, \n\t\u4e2d\U0001f600merges'), max_size=6)
PAIRS = st.lists(TEXTS, min_size=2, max_size=2)
INDENTS = st.sampled_from([None, 0, 2])


@given(
    st.dictionaries(TEXTS, st.integers(0, 99), max_size=5),
    st.one_of(st.lists(TEXTS, max_size=5), st.lists(PAIRS, max_size=5)),
    INDENTS,
    st.booleans(),
)
def test_only_the_merges_go(vocabulary: dict[str, int], merges: list[JsonValue], indent: int | None, raw: bool) -> None:
    model = {"type": "BPE", "vocab": {**vocabulary, "merges": 7}, "merges": merges, "after": [1]}
    document = {"added_tokens": [{"content": '"merges": ["x"]'}], "model": model, 'a"merges': [[1]]}
    data = json.dumps(document, indent=indent, ensure_ascii=not raw).encode()
    cut = without_merges(data)
    model["merges"] = []
    assert json.loads(cut) == document
    assert len(cut) <= len(data)


ODD: dict[str, str] = {
    "triples": '{"merges": [["a", "b", "c"]], "x": 1}',
    "numbers": '{"merges": [1, 2]}',
    "object": '{"merges": {"a": 1}}',
    "truncated": '{"merges": ["a", "b"',
    "no list": '{"merges": "a"}',
    "trailing comma": '{"merges": ["a",]}',
    "line break in a text": '{"merges": ["a\nb"]}',
    "mixed": '{"merges": ["a b", ["a", "b"]]}',
    "none": "{}",
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_lists_of_another_shape_are_left_to_the_parser(text: str) -> None:
    assert without_merges(text.encode()) == text.encode()


def test_a_broken_document_is_still_refused(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {
        "model.safetensors": safetensors_bytes(LLAMA_SHAPES),
        "tokenizer.json": '{"model": {"merges": ["a b"], "vocab": {"a": }}}',
    }
    folder = write_model(tmp_path / "m", None, files)
    with pytest.raises(BrokenCheckpointError, match=r"tokenizer\.json: not valid JSON"):
        analyze(resolve_model(str(folder)), vllm_version="0.32.0", platform="cpu")


def varint(number: int) -> bytes:
    data = b""
    while number > 127:
        data += bytes([number & 127 | 128])
        number >>= 7
    return data + bytes([number])


def sentencepiece(*texts: str) -> bytes:
    """As the protobuf of google/sentencepiece: pieces of text, score and type, then the trainer's settings."""
    rows = b""
    for text in texts:
        piece = b"\x0a" + varint(len(text.encode())) + text.encode() + b"\x15\x00\x00\x80\xbf" + b"\x18\x02"
        rows += b"\x0a" + varint(len(piece)) + piece
    return rows + b"\x12\x04\x0a\x02xy"


def test_pieces_of_a_sentencepiece_model() -> None:
    texts = ("<unk>", "<s>", "</s>", "\u2581hello", "x" * 300)
    assert pieces(sentencepiece(*texts)) == texts


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x0a",
        b"\x0a\x05\x0a\x09abc",
        b"\x0a\xff\xff\xff\xff\xff",
        b"\x0a\x03\x0a\x01\xff",
        b"\x0a\x02\x12\x00",
        b"{}",
    ],
)
def test_what_is_no_sentencepiece_model(data: bytes) -> None:
    assert pieces(data) is None
