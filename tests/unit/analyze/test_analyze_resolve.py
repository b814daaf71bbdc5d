"""What `MODEL` means, and what is said when it means nothing."""

import os
from pathlib import Path

import pytest

from autoadapter.analyze import analyze, input_digest, resolve_model
from autoadapter.artifacts import ModelKind
from autoadapter.errors import BrokenCheckpointError, ModelNotFoundError, UserError
from tests.unit.analyze.analyze_files import LLAMA_SHAPES, gguf_llama, safetensors_bytes, torch_bytes, write_model


def test_folder_and_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_model(tmp_path / "m")
    (tmp_path / "x.gguf").write_bytes(gguf_llama())
    monkeypatch.chdir(tmp_path)
    assert resolve_model("m").location == str(folder)
    assert resolve_model("m").kind is ModelKind.FOLDER
    assert resolve_model("./m/").location == str(folder)
    assert resolve_model("x.gguf").kind is ModelKind.GGUF_FILE
    assert resolve_model("x.gguf").name == "x"


def test_folder_that_holds_one_gguf(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(gguf_llama())
    ref = resolve_model(str(tmp_path))
    assert (ref.kind, ref.location) == (ModelKind.GGUF_FILE, str(tmp_path / "x.gguf"))


@pytest.mark.parametrize("names", [[], ["a.gguf", "b.gguf"], ["model.safetensors"]])
def test_folder_without_config(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(UserError) as caught:
        resolve_model(str(tmp_path))
    assert str(caught.value) == (
        f"{tmp_path} has no config.json, and not exactly one .gguf file that would replace it."
    )
    assert caught.value.hint == "Name the folder that holds config.json and the weights."


def test_file_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match=r"config.json is a file, but not a .gguf file\."):
        resolve_model(str(tmp_path / "config.json"))


@pytest.mark.parametrize("text", ["/no/such/folder", "./no", "missing.gguf", "a/b/c", "~/none", "", "-x/y", "a/../x"])
def test_path_that_does_not_exist(text: str) -> None:
    with pytest.raises(ModelNotFoundError) as caught:
        resolve_model(text)
    assert str(caught.value) == (
        f"{text!r} is neither a folder or .gguf file that exists nor a Hub id of the form owner/name."
    )


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("SmolLM2-135M-Instuct", "./SmolLM2-135M-Instruct"),
        ("./smollm2-135m-instruct/", "./SmolLM2-135M-Instruct"),
        ("models/SmolLM-1.gguf", "./models/SmolLM2.gguf"),
        ("HuggingFaceTB/SmolLM2-135M-Instruct-", "./SmolLM2-135M-Instruct"),
        ("models/readme.md", None),
        ("quite-another", None),
    ],
)
def test_a_name_close_to_one_that_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, meant: str | None
) -> None:
    (tmp_path / "SmolLM2-135M-Instruct").mkdir()
    (tmp_path / "models").mkdir()
    for name in ("SmolLM2.gguf", "README.md"):
        (tmp_path / "models" / name).write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    with pytest.raises(UserError) as caught:
        resolve_model(text)
    hint = caught.value.hint or ""
    assert hint.startswith(f"Did you mean {meant}? ") if meant else "Did you mean" not in hint
    assert len(hint.removeprefix(f"Did you mean {meant}? ")) > 10


def test_revision_of_a_local_model(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m")
    with pytest.raises(UserError) as caught:
        resolve_model(str(folder), revision="main")
    assert str(caught.value) == f"--revision main has no meaning for {folder}, which is on this machine."


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{'single': 1}", "not valid JSON: Expecting property name enclosed in double quotes at line 1, column 2."),
        ('{"a": 1', "not valid JSON: Expecting ',' delimiter at line 1, column 8."),
        ("[]", "holds a JSON list instead of an object."),
        ("", "not valid JSON: Expecting value at line 1, column 1."),
    ],
)
def test_malformed_config(tmp_path: Path, text: str, sentence: str) -> None:
    folder = write_model(tmp_path / "m")
    (folder / "config.json").write_text(text)
    with pytest.raises(BrokenCheckpointError) as caught:
        analyze(resolve_model(str(folder)), vllm_version="0.32.0", platform="cpu")
    assert str(caught.value) == f"{folder}/config.json: {sentence}"


def test_deep_config_is_refused(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m")
    (folder / "config.json").write_text('{"a":' * 100_000 + "1" + "}" * 100_000)
    with pytest.raises(BrokenCheckpointError, match="not UTF-8 text of sane depth"):
        analyze(resolve_model(str(folder)), vllm_version="0.32.0", platform="cpu")


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("config.json", b'{"model_type": "llama"}', b'{"model_type": "qwen2"}'),
        ("tokenizer.json", b"{}", b'{"a": 1}'),
        ("chat_template.jinja", b"a", b"b"),
        ("model.safetensors", safetensors_bytes({"a": (4,)}), safetensors_bytes({"b": (4,)})),
        ("modeling_x.py", b"x = 1", b"x = 2"),
    ],
)
def test_digest_follows_every_header_and_config(tmp_path: Path, name: str, before: bytes, after: bytes) -> None:
    folder = write_model(tmp_path / "m")
    (folder / name).write_bytes(before)
    first = input_digest(resolve_model(str(folder)))
    assert input_digest(resolve_model(str(folder))) == first and len(first) == 64
    (folder / name).write_bytes(after)
    assert input_digest(resolve_model(str(folder))) != first


@pytest.mark.parametrize(
    ("name", "data", "renamed"),
    [
        ("m.gguf", gguf_llama(), gguf_llama().replace(b"blk.0.ffn_gate", b"blk.1.ffn_gate")),
        ("pytorch_model.bin", torch_bytes({"a": (4,)}), torch_bytes({"b": (4,)})),
    ],
)
def test_digest_reads_headers_and_not_weights(tmp_path: Path, name: str, data: bytes, renamed: bytes) -> None:
    folder = write_model(tmp_path / "m", files={name: data})
    ref = resolve_model(str(folder))
    first = input_digest(ref)
    assert len(renamed) == len(data)
    (folder / name).write_bytes(renamed)
    assert input_digest(ref) != first


def test_digest_does_not_read_weights(tmp_path: Path) -> None:
    data = safetensors_bytes(LLAMA_SHAPES)
    folder = write_model(tmp_path / "m", files={"model.safetensors": data})
    first, then = input_digest(resolve_model(str(folder))), (folder / "model.safetensors").stat().st_mtime_ns
    (folder / "model.safetensors").write_bytes(data[:-4] + b"abcd")
    os.utime(folder / "model.safetensors", ns=(then, then))
    assert input_digest(resolve_model(str(folder))) == first


def test_digest_notices_weights_changed_in_place(tmp_path: Path) -> None:
    data = safetensors_bytes(LLAMA_SHAPES)
    folder = write_model(tmp_path / "m", files={"model.safetensors": data})
    first, then = input_digest(resolve_model(str(folder))), (folder / "model.safetensors").stat().st_mtime_ns
    (folder / "model.safetensors").write_bytes(data[:-4] + b"abcd")
    os.utime(folder / "model.safetensors", ns=(then, then + 1_000_000_000))
    assert input_digest(resolve_model(str(folder))) != first


def test_model_that_is_gone(tmp_path: Path) -> None:
    ref = resolve_model(str(write_model(tmp_path / "m")))
    (tmp_path / "m").rename(tmp_path / "elsewhere")
    with pytest.raises(ModelNotFoundError, match="is gone"):
        analyze(ref, vllm_version="0.32.0", platform="cpu")
