"""Links, pipes and devices in a model's folder: nothing outside of it is read without the user's word."""

import os
from pathlib import Path

import pytest

from autoadapter.analyze import analyze, input_digest, resolve_model
from autoadapter.artifacts import ModelProfile
from autoadapter.errors import AutoadapterError, UserError
from tests.unit.analyze.analyze_files import LLAMA_SHAPES, gguf_llama, safetensors_bytes, write_model

SECRET = '{"password": "hunter2"}'


def profile(path: Path, *, follow: bool = False) -> ModelProfile:
    ref = resolve_model(str(path), follow_symlinks=follow)
    return analyze(ref, vllm_version="0.32.0", platform="cpu")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "secret.json").write_text(SECRET)
    (folder / "weights").write_bytes(safetensors_bytes(LLAMA_SHAPES))
    return folder


@pytest.mark.parametrize("name", ["generation_config.json", "tokenizer.json", "README.md", "notes.txt"])
def test_link_out_of_the_folder(tmp_path: Path, elsewhere: Path, name: str) -> None:
    model = write_model(tmp_path / "m")
    (model / name).symlink_to(elsewhere / "secret.json")
    with pytest.raises(UserError) as caught:
        profile(model)
    assert str(caught.value) == (
        f"{model / name} is a symbolic link to {elsewhere / 'secret.json'}, which lies outside the model's folder; "
        "it was not followed."
    )
    assert caught.value.hint == f"If you trust it: autoadapter analyze {model} --follow-symlinks"
    with pytest.raises(UserError, match="was not followed"):
        input_digest(resolve_model(str(model)))


def test_weights_elsewhere_with_the_flag(tmp_path: Path, elsewhere: Path) -> None:
    model = write_model(tmp_path / "m", files={})
    (model / "model.safetensors").symlink_to(elsewhere / "weights")
    with pytest.raises(UserError, match=r"model.safetensors is a symbolic link to .*weights"):
        profile(model)
    found = profile(model, follow=True)
    assert found.tensors.tensors == len(LLAMA_SHAPES) and found.ref.follow_symlinks
    assert len(input_digest(found.ref)) == 64


def test_dots_lead_out_and_back(tmp_path: Path, elsewhere: Path) -> None:
    model = write_model(tmp_path / "m", files={})
    (model / "a.bin.real").write_bytes(safetensors_bytes(LLAMA_SHAPES))
    (model / "model.safetensors").symlink_to(Path("..") / "m" / "a.bin.real")
    assert profile(model).tensors.tensors == len(LLAMA_SHAPES)
    (model / "model.safetensors").unlink()
    (model / "model.safetensors").symlink_to(Path("..") / "elsewhere" / "weights")
    with pytest.raises(UserError, match="outside the model's folder"):
        profile(model)


def test_folder_beside_that_begins_with_the_same_name(tmp_path: Path) -> None:
    model, other = write_model(tmp_path / "m"), write_model(tmp_path / "m2")
    (model / "generation_config.json").symlink_to(other / "config.json")
    with pytest.raises(UserError, match="outside the model's folder"):
        profile(model)


def test_folder_that_is_a_link_itself(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m")
    (tmp_path / "link").symlink_to(model)
    assert profile(tmp_path / "link").architecture == "LlamaForCausalLM"


def snapshot(home: Path, files: dict[str, bytes]) -> Path:
    """A snapshot as the Hugging Face cache keeps it: names are links to blobs."""
    folder = home / "models--org--name" / "snapshots" / ("c" * 40)
    folder.mkdir(parents=True)
    blobs = home / "models--org--name" / "blobs"
    blobs.mkdir()
    for number, (name, content) in enumerate(files.items()):
        (blobs / str(number)).write_bytes(content)
        (folder / name).symlink_to(Path("../../blobs") / str(number))
    return folder


def test_cache_layout_is_the_models_own(tmp_path: Path) -> None:
    whole = write_model(tmp_path / "m")
    files = {path.name: path.read_bytes() for path in whole.iterdir()}
    folder = snapshot(tmp_path / "hub", files)
    assert profile(folder).tensors.tensors == len(LLAMA_SHAPES)
    (folder / "generation_config.json").symlink_to(whole / "config.json")
    with pytest.raises(UserError, match="outside the model's folder"):
        profile(folder)


def test_cache_layout_by_name_alone(tmp_path: Path) -> None:
    """A folder may call itself a snapshot; its links still stay within what is called the model's."""
    model = tmp_path / "models--x" / "snapshots" / "main"
    write_model(model.parent, files={}).rename(tmp_path / "spare")
    model.parent.mkdir(parents=True, exist_ok=True)
    write_model(model)
    (tmp_path / "models--x" / "near").write_text("{}")
    (tmp_path / "far").write_text("{}")
    (model / "generation_config.json").symlink_to(tmp_path / "models--x" / "near")
    assert profile(model)
    (model / "README.md").symlink_to(tmp_path / "far")
    with pytest.raises(UserError, match=r"README\.md is a symbolic link"):
        profile(model)


def test_only_gguf_of_a_folder_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.gguf").write_bytes(gguf_llama())
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "model.gguf").symlink_to(tmp_path / "real.gguf")
    with pytest.raises(UserError, match="was not followed"):
        profile(folder)
    assert profile(folder, follow=True).tensors.format == "gguf"
    assert profile(folder / "model.gguf").tensors.format == "gguf", "the user named the link itself"


def test_loops_pipes_devices_and_folders(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m")
    (model / "a.safetensors").symlink_to("b.safetensors")
    (model / "b.safetensors").symlink_to("a.safetensors")
    (model / "c.safetensors").symlink_to("/dev/zero")
    os.mkfifo(model / "d.safetensors")
    (model / "tokenizer.json").mkdir()
    os.mkfifo(model / "generation_config.json")
    found = profile(model)
    (told,) = [finding for finding in found.findings if finding.code == "weights.no-file"]
    assert "a.safetensors is a broken symbolic link" in told.message and "and 3 more" in told.message
    assert len(input_digest(found.ref)) == 64


def test_config_that_is_no_file(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m")
    (model / "config.json").unlink()
    os.mkfifo(model / "config.json")
    with pytest.raises(AutoadapterError, match=r"has no config\.json"):
        profile(model)
    (model / "config.json").unlink()
    (model / "config.json").symlink_to("config.json")
    with pytest.raises(AutoadapterError, match=r"has no config\.json"):
        profile(model)


def test_endless_file_behind_the_flag(tmp_path: Path) -> None:
    """Even where links may be followed, a device is no file."""
    model = write_model(tmp_path / "m")
    (model / "generation_config.json").symlink_to("/dev/zero")
    assert profile(model, follow=True).tokenizer.stop_token_ids == (2,)
