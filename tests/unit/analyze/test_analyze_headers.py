"""Header parsers: what they read, every error sentence, and that no bytes crash them."""

import json
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoadapter.analyze.headers.gguf import read_gguf
from autoadapter.analyze.headers.pickle_machine import PickleMachine
from autoadapter.analyze.headers.pytorch import read_pytorch
from autoadapter.analyze.headers.safetensors import read_safetensors
from autoadapter.analyze.sources.byte_source import BytesSource
from autoadapter.analyze.text import ESCAPED_SURROGATE, load_json
from autoadapter.errors import BrokenCheckpointError
from tests.unit.analyze.analyze_files import (
    LLAMA_SHAPES,
    gguf_bytes,
    gguf_llama,
    pickle_of,
    safetensors_bytes,
    torch_bytes,
)

GOOD = safetensors_bytes(LLAMA_SHAPES)


def source(data: bytes, label: str = "m/model.safetensors") -> BytesSource:
    return BytesSource(data, label)


def with_header(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def test_safetensors_reads_names_shapes_and_bytes() -> None:
    tensors = {info.name: info for info in read_safetensors(source(GOOD), "model.safetensors")}
    assert set(tensors) == set(LLAMA_SHAPES)
    keys = tensors["model.layers.0.self_attn.k_proj.weight"]
    assert (keys.dtype, keys.shape, keys.bytes, keys.elements) == ("BF16", (128, 8), 2048, 1024)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (GOOD[:-5], f"truncated: the header describes {len(GOOD)} bytes and the file has {len(GOOD) - 5}."),
        (GOOD[:40], "truncated: the header needs "),
        (GOOD + b"xyz", "3 bytes follow the last tensor: the file was not written whole."),
        (b"<!DOCTYPE html><html>not found</html>", "not a safetensors file: its first 8 bytes are not the length of"),
        (b"abc", "not a safetensors file: 3 bytes cannot hold a header."),
        (with_header(b"[1, 2]"), "not a safetensors file: the header is not a JSON object."),
        (with_header(b"{broken"), "not a safetensors file: the header is not a JSON object."),
        (with_header({"w": {"dtype": "F32"}}), "tensor 'w' has no valid dtype, shape and data_offsets."),
        (
            with_header({"w": {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}}, bytes(4)),
            "tensor 'w' has the unknown dtype 'F99'.",
        ),
        (
            with_header({"w": {"dtype": "F32", "shape": [3], "data_offsets": [0, 4]}}, bytes(4)),
            "tensor 'w' of shape [3] and dtype F32 cannot fill 4 bytes.",
        ),
        (
            with_header({"w": {"dtype": "U8", "shape": [1], "data_offsets": [2, 3]}}, bytes(3)),
            "tensor 'w' begins at byte 2 of the data instead of 0.",
        ),
    ],
)
def test_safetensors_says_what_is_wrong(data: bytes, sentence: str) -> None:
    with pytest.raises(BrokenCheckpointError) as caught:
        read_safetensors(source(data), "model.safetensors")
    assert str(caught.value).startswith(f"m/model.safetensors: {sentence}")
    assert caught.value.exit_code == 2
    assert caught.value.hint == "Download the file again, then repeat the command."


def test_pytorch_reads_without_unpickling() -> None:
    shapes = {"a.weight": (3, 4), "b.bias": (5,), "c": ()}
    tensors = read_pytorch(source(torch_bytes(shapes)), "pytorch_model.bin")
    assert [(info.name, info.shape, info.dtype, info.bytes) for info in tensors] == [
        ("a.weight", (3, 4), "F32", 48),
        ("b.bias", (5,), "F32", 20),
        ("c", (), "F32", 4),
    ]


def test_pytorch_looks_below_state_dict() -> None:
    inner = pickle_of({"w": (2,)})[2:-1]
    wrapped = b"\x80\x02}(X\x0a\x00\x00\x00state_dict" + inner + b"X\x05\x00\x00\x00epochK\x03u."
    tensors = read_pytorch(source(torch_bytes({"w": (2,)}, wrapped)), "pytorch_model.bin")
    assert [info.name for info in tensors] == ["w"]


MALICIOUS = b"\x80\x02cposix\nsystem\n(X\x02\x00\x00\x00idtR."
STACKED = b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x011\x85R."


@pytest.mark.parametrize(("pickled", "name"), [(MALICIOUS, "posix.system"), (STACKED, "builtins.eval")])
def test_pytorch_refuses_foreign_code_by_name(pickled: bytes, name: str) -> None:
    with pytest.raises(BrokenCheckpointError) as caught:
        read_pytorch(source(torch_bytes({}, pickled), "m/pytorch_model.bin"), "pytorch_model.bin")
    assert str(caught.value) == (
        f"m/pytorch_model.bin: refused: its pickle asks for {name}, "
        "which is not part of a list of tensors; nothing was run."
    )
    assert caught.value.hint is not None and "safetensors" in caught.value.hint


def test_pytorch_says_that_it_is_no_archive() -> None:
    with pytest.raises(BrokenCheckpointError, match=r"not a zip archive: truncated, written by torch before 1\.6"):
        read_pytorch(source(torch_bytes({"w": (4,)})[:-30]), "pytorch_model.bin")


def test_pytorch_misses_a_storage() -> None:
    data = torch_bytes({}, pickle_of({"w": (4,)}))
    with pytest.raises(BrokenCheckpointError, match=r"tensor 'w' needs 16 bytes and the archive has 0 for it\."):
        read_pytorch(source(data), "pytorch_model.bin")


def test_gguf_reads_metadata_and_tensors() -> None:
    header = read_gguf(source(gguf_llama()), "m.gguf")
    assert header.metadata["general.architecture"] == "llama"
    assert header.metadata["tokenizer.ggml.tokens"] == ["<s>", "</s>", "a", "b"]
    assert header.metadata["tokenizer.ggml.token_type"] == [3, 3, 1, 1]
    keys = next(info for info in header.tensors if info.name == "blk.0.attn_k.weight")
    assert (keys.dtype, keys.shape, keys.bytes) == ("Q4_1", (32, 64), 1280)


WHOLE = gguf_llama()


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"PK\x03\x04 something else", "not a GGUF file: it does not begin with GGUF."),
        (WHOLE[:-100], f"truncated: its tensors end at byte {len(WHOLE)} and the file has {len(WHOLE) - 100}."),
        (WHOLE[:600], "truncated: the header needs "),
        (b"GGUF" + struct.pack("<I", 1) + bytes(32), "GGUF version 1 (or big-endian); this AutoAdapter reads"),
        (
            gguf_bytes([], {"w": ((32,), 31, 0)}),
            "tensor 'w' has the GGML type 31, which this AutoAdapter does not",
        ),
        (gguf_bytes([], {"w": ((33,), 2, 0)}), "damaged: 33 elements of tensor 'w' are no whole Q4_0 blocks."),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0), "truncated or damaged: it announces 11529215046068"),
    ],
)
def test_gguf_says_what_is_wrong(data: bytes, sentence: str) -> None:
    with pytest.raises(BrokenCheckpointError) as caught:
        read_gguf(source(data, "m.gguf"), "m.gguf")
    assert str(caught.value).startswith(f"m.gguf: {sentence}")


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300))
def test_random_bytes_never_crash(data: bytes) -> None:
    """Only a BrokenCheckpointError may leave a parser, whatever it is given."""
    framed = (
        data,
        with_header(data),
        b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + data,
        torch_bytes({}, data),
        torch_bytes({}, b"\x80\x02" + data + b"."),
    )
    for read in (read_safetensors, read_pytorch, read_gguf):
        for candidate in framed:
            try:
                read(source(candidate), "file")
            except BrokenCheckpointError:
                pass


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_flipped_bytes_never_crash(data: st.DataObject) -> None:
    """Damage inside real files: the headers' own paths, not only their first check."""
    for whole, read in ((GOOD, read_safetensors), (torch_bytes({"w": (2, 3)}), read_pytorch), (WHOLE, read_gguf)):
        position = data.draw(st.integers(0, len(whole) - 1))
        damaged = bytearray(whole)
        damaged[position] = data.draw(st.integers(0, 255))
        try:
            read(source(bytes(damaged)), "file")
        except BrokenCheckpointError:
            pass


OPCODES = st.sampled_from([bytes([code]) for code in b"(.0125N\x88\x89)]}tRQusab\x85\x86\x87\x93\x94q\x00h\x00K\x01"])


@settings(max_examples=300, deadline=None)
@given(st.lists(OPCODES, max_size=30))
def test_any_program_of_opcodes_ends(program: list[bytes]) -> None:
    try:
        PickleMachine("file").run(b"".join(program))
    except BrokenCheckpointError:
        pass


LIKE = {"dtype": "U8", "shape": [1, 2], "data_offsets": [0, 2]}


@pytest.mark.parametrize(
    "row",
    [
        {**LIKE, "shape": [True, 2], "data_offsets": [2, 4]},
        {**LIKE, "shape": [1, 2.0], "data_offsets": [2, 4]},
        {**LIKE, "data_offsets": [2.0, 4]},
        {**LIKE, "shape": "12", "data_offsets": [2, 4]},
        {**LIKE, "shape": {"1": 2}, "data_offsets": [2, 4]},
        {**LIKE, "dtype": ["U8"], "data_offsets": [2, 4]},
        {**LIKE, "data_offsets": [2, 4, 6]},
    ],
)
def test_what_only_equals_a_sound_tensor_is_refused(row: object) -> None:
    """A tensor like one that was checked is not checked again, and 1 equals True and 1.0."""
    with pytest.raises(BrokenCheckpointError, match=r"tensor 'b' has no valid dtype, shape and data_offsets"):
        read_safetensors(source(with_header({"a": LIKE, "b": row}, bytes(4))), "f")


def test_offsets_that_are_truth_values_are_refused() -> None:
    row = {"dtype": "U8", "shape": [1], "data_offsets": [False, True]}
    with pytest.raises(BrokenCheckpointError, match="no valid dtype, shape and data_offsets"):
        read_safetensors(source(with_header({"a": row}, bytes(1))), "f")


def test_tensors_may_stand_in_any_order() -> None:
    header = {"b": {**LIKE, "data_offsets": [2, 4]}, "__metadata__": {"true": "1.0"}, "a": LIKE}
    assert [info.name for info in read_safetensors(source(with_header(header, bytes(4))), "f")] == ["a", "b"]


DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=10,
)


@given(DOCUMENTS, st.booleans(), st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=2))
@settings(max_examples=400, deadline=None, derandomize=True)
def test_the_fast_parser_reads_what_json_reads(document: object, escape: bool, faults: list[tuple[int, int]]) -> None:
    data = bytearray(json.dumps(document, ensure_ascii=escape).encode("utf-8", errors="replace"))
    for place, byte in faults:
        data[place % len(data)] = byte
    try:
        expected = json.loads(bytes(data).decode("utf-8"))
    except (ValueError, RecursionError):
        with pytest.raises(BrokenCheckpointError):
            load_json(bytes(data), "f")
        return
    if json.detect_encoding(data) != "utf-8" or ESCAPED_SURROGATE.search(data):
        return
    assert repr(load_json(bytes(data), "f")) == repr(expected)
