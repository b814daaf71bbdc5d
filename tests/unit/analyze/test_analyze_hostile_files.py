"""Files that mean harm: pickles that hang, YAML bombs, texts that cannot be written, tensors that overlap."""

import json
import os
import struct
from pathlib import Path

import pytest
from pydantic import JsonValue

from autoadapter.analyze import analyze, resolve_model
from autoadapter.analyze.headers.gguf import read_gguf
from autoadapter.analyze.headers.pickle_machine import PickleMachine
from autoadapter.analyze.headers.pytorch import read_pytorch
from autoadapter.analyze.headers.safetensors import read_safetensors
from autoadapter.analyze.sources.byte_source import BytesSource
from autoadapter.artifacts import Finding, Level, ModelProfile
from autoadapter.errors import BrokenCheckpointError, UserError
from tests.unit.analyze.analyze_files import (
    LLAMA,
    LLAMA_SHAPES,
    gguf_bytes,
    pickle_of,
    safetensors_bytes,
    torch_bytes,
    write_model,
)

WEIGHTS: dict[str, bytes | str] = {"model.safetensors": safetensors_bytes(LLAMA_SHAPES)}


def profile(folder: Path) -> ModelProfile:
    found = analyze(resolve_model(str(folder)), vllm_version="0.32.0", platform="cpu")
    return ModelProfile.model_validate_json(found.to_json())


def finding(found: ModelProfile, code: str) -> Finding:
    return next(finding for finding in found.findings if finding.code == code)


NESTED_TUPLE = b"\x80\x02" + b")" + b"".join(b"q%ch%c\x86" % (n, n) for n in range(60))


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("pickled", "why"),
    [
        (b"\x80\x02}" + NESTED_TUPLE[2:] + b"Ns.", "a key of one of its dicts"),
        (b"\x80\x02}(" + NESTED_TUPLE[2:] + b"Nu.", "a key of one of its dicts"),
        (b"\x80\x04" + NESTED_TUPLE[2:] + b"X\x01\x00\x00\x00a\x93.", "whose name is no text"),
        (b"\x80\x02}X\x03\x00\x00\x00\xed\xa0\x80Ns.", "no text"),
    ],
)
def test_pickle_that_would_hang(pickled: bytes, why: str) -> None:
    with pytest.raises(BrokenCheckpointError, match=why):
        PickleMachine("m.bin").run(pickled)


def test_tensor_beyond_its_storage() -> None:
    good = pickle_of({"a": (4,)})
    assert read_pytorch(BytesSource(torch_bytes({"a": (4,)}), "m.bin"), "m.bin")[0].shape == (4,)
    later = good.replace(b"QJ\x00\x00\x00\x00", b"QJ\x01\x00\x00\x00")
    strided = good.replace(b"(J\x01\x00\x00\x00t\x89", b"(J\x02\x00\x00\x00t\x89")
    backwards = good.replace(b"QJ\x00\x00\x00\x00", b"QJ\xff\xff\xff\xff")
    assert len({good, later, strided, backwards}) == 4
    for pickled, why in ((later, "reaches 5 elements"), (strided, "reaches 7 elements"), (backwards, "damaged")):
        with pytest.raises(BrokenCheckpointError, match=why):
            read_pytorch(BytesSource(torch_bytes({"a": (4,)}, pickled), "m.bin"), "m.bin")


@pytest.mark.timeout(20)
def test_yaml_bomb_in_the_readme(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40))]
    lines += ["license: other", "license_name: *a39"]
    folder = write_model(tmp_path / "m", files=WEIGHTS | {"README.md": "---\n" + "\n".join(lines) + "\n---\n"})
    assert profile(folder).license is None


@pytest.mark.parametrize(
    ("card", "found"),
    [
        ("license: other\nlicense_name: [a]", "other"),
        ("license: {a: b}", None),
        ('license: "\\ud800x"', "\ufffdx"),
        ("license: mit\n" + "x: y\n" * 20_000, None),
    ],
)
def test_license_is_text(tmp_path: Path, card: str, found: str | None) -> None:
    folder = write_model(tmp_path / "m", files=WEIGHTS | {"README.md": f"---\n{card}\n---\n"})
    assert profile(folder).license == found


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tokenizer_config.json", r'{"eos_token": "\ud800"}'),
        (
            "tokenizer.json",
            r'{"added_tokens": [{"id": 2, "content": "\udfff", "special": true}], "model": {"type": "BPE"}}',
        ),
        ("tokenizer_config.json", r'{"auto_map": {"\ud800": "x.Y"}}'),
        ("config.json", r'{"architectures": ["\ud800"], "model_type": "\ud800", "transformers_version": "\ud800"}'),
        ("config.json", r'{"hidden_size": "\ud800"}'),
    ],
)
def test_half_of_a_surrogate_pair(tmp_path: Path, name: str, text: str) -> None:
    folder = write_model(tmp_path / "m", files=WEIGHTS)
    (folder / name).write_text(text)
    try:
        profile(folder).to_json().encode()
    except UserError as error:
        str(error).encode()


def test_half_of_a_surrogate_pair_in_a_tensor_name() -> None:
    data = safetensors_bytes({"\ud800": (2,)})
    assert b"\\ud800" in data
    with pytest.raises(BrokenCheckpointError, match="has no valid dtype"):
        read_safetensors(BytesSource(data, "m"), "m")


def test_file_name_that_is_no_text(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", files=WEIGHTS)
    try:
        Path(os.fsdecode(bytes(folder) + b"/\xff.safetensors")).write_bytes(b"")
    except OSError:
        pytest.skip("this file system takes UTF-8 names alone")
    with pytest.raises(UserError, match="whose name is no UTF-8 text"):
        profile(folder)


@pytest.mark.parametrize("number", ["²", "-1", "\u0661", "9" * 5000])
def test_added_token_whose_number_is_none(tmp_path: Path, number: str) -> None:
    config = {"added_tokens_decoder": {number: {"content": "<x>"}}, "eos_token": "<x>"}
    files = WEIGHTS | {"vocab.json": '{"a": 0}', "tokenizer_config.json": json.dumps(config)}
    tokens = profile(write_model(tmp_path / "m", files=files)).tokenizer.special_tokens
    assert [(token.text, token.id) for token in tokens] == [("<x>", None)]


@pytest.mark.parametrize(
    ("encoding", "name"),
    [
        ("utf-16", "UTF-16"),
        ("utf-16-le", "UTF-16-LE"),
        ("utf-32", "UTF-32"),
        ("utf-8-sig", "UTF-8 with a byte order mark"),
    ],
)
def test_encoding_is_named(tmp_path: Path, encoding: str, name: str) -> None:
    folder = write_model(tmp_path / "m")
    (folder / "config.json").write_bytes(json.dumps(LLAMA).encode(encoding))
    with pytest.raises(BrokenCheckpointError) as caught:
        profile(folder)
    assert str(caught.value) == f"{folder}/config.json: is encoded as {name}, and transformers reads UTF-8 alone."


@pytest.mark.parametrize(
    ("text", "word"), [("[]", "list"), ('"a"', "text"), ("1", "number"), ("null", "null"), ("true", "truth value")]
)
def test_json_of_another_kind(tmp_path: Path, text: str, word: str) -> None:
    folder = write_model(tmp_path / "m")
    (folder / "config.json").write_text(text)
    with pytest.raises(BrokenCheckpointError, match=f"holds a JSON {word} instead of an object"):
        profile(folder)


@pytest.mark.parametrize("said", ["LlamaForCausalLM", {"a": 1}, [1], 7])
def test_architectures_of_another_kind(tmp_path: Path, said: JsonValue) -> None:
    with pytest.raises(BrokenCheckpointError, match=r"architectures is a JSON .*, not a list of class names"):
        profile(write_model(tmp_path / "m", {"architectures": said}))


def test_weights_that_are_no_files(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", files={})
    (folder / "model.safetensors").symlink_to(tmp_path / "gone")
    told = finding(profile(folder), "weights.no-file")
    assert told.level is Level.BLOCKER and told.message.startswith("model.safetensors is a broken symbolic link")
    (folder / "model.safetensors").unlink()
    os.mkfifo(folder / "model.safetensors")
    assert finding(profile(folder), "weights.no-file").message.startswith("model.safetensors is a named pipe")


def test_shard_that_is_a_broken_link(tmp_path: Path) -> None:
    index = json.dumps({"weight_map": {"a": "a.safetensors"}})
    folder = write_model(tmp_path / "m", files={"model.safetensors.index.json": index})
    (folder / "a.safetensors").symlink_to("gone")
    with pytest.raises(
        BrokenCheckpointError, match=r"names the shard a.safetensors, and the file is a broken symbolic link"
    ):
        profile(folder)


def test_weights_without_tensors(tmp_path: Path) -> None:
    told = finding(
        profile(write_model(tmp_path / "m", files={"model.safetensors": safetensors_bytes({})})), "weights.empty"
    )
    assert told.level is Level.BLOCKER and told.message.startswith("model.safetensors holds no tensors")


def test_tensor_that_is_there_twice() -> None:
    text = b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
    with pytest.raises(BrokenCheckpointError, match="has the entry 'a' twice"):
        read_safetensors(BytesSource(struct.pack("<Q", len(text)) + text + b"\0", "m"), "m")


@pytest.mark.timeout(20)
def test_shape_whose_product_would_take_for_ever() -> None:
    text = json.dumps({"a": {"dtype": "U8", "shape": [2**62] * 1_000_000, "data_offsets": [0, 1]}}).encode()
    with pytest.raises(BrokenCheckpointError, match="no valid dtype, shape"):
        read_safetensors(BytesSource(struct.pack("<Q", len(text)) + text + b"\0", "m"), "m")


def test_gguf_that_is_doubled_or_overlaps() -> None:
    data = gguf_bytes([("a", 4, 1)], {"w0": ((32,), 0, 128), "w1": ((32,), 0, 128)})
    second = struct.pack("<IQ", 0, 128)
    assert data.count(second) == 1 and len(read_gguf(BytesSource(data, "m"), "m").tensors) == 2
    with pytest.raises(BrokenCheckpointError, match="'w0' and 'w1' overlap"):
        read_gguf(BytesSource(data.replace(second, struct.pack("<IQ", 0, 96)), "m"), "m")
    with pytest.raises(BrokenCheckpointError, match="the tensor 'w0' twice"):
        read_gguf(BytesSource(data.replace(b"w1", b"w0"), "m"), "m")
    with pytest.raises(BrokenCheckpointError, match="the key 'a' twice"):
        read_gguf(BytesSource(gguf_bytes([("a", 4, 1), ("a", 4, 2)], {}), "m"), "m")


def test_deep_tokenizer(tmp_path: Path) -> None:
    for depth in range(900, 1000, 3):
        deep = '{"model": {"type": "BPE", "vocab": {}}, "decoder": ' + "[" * depth + "]" * depth + "}"
        folder = write_model(tmp_path / "m", files=WEIGHTS | {"tokenizer.json": deep})
        try:
            profile(folder)
        except UserError as error:
            assert "sane depth" in str(error)
