"""A Hub model is downloaded into the Hub's cache once, and never taken for complete when it is not."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from autoadapter.artifacts import ModelKind, ModelProfile, ModelRef
from autoadapter.artifacts.model_profile import WeightFile
from autoadapter.errors import ModelNotFoundError, StorageError
from autoadapter.optimize.growth import watch_growth
from autoadapter.optimize.source import local_source
from autoadapter.progress import silent
from autoadapter.sample import REPOSITORY
from tests.unit.optimize.little_hub import COMMIT, FILES, Hub, serving
from tests.unit.optimize.optimize_builders import make_census, make_profile


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[type[Hub]]:
    with serving() as (handler, address):
        monkeypatch.setenv("HF_ENDPOINT", address)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        yield handler


def hub_profile(tmp_path: Path, size: int = len(FILES["model.safetensors"])) -> ModelProfile:
    profile = make_profile(tmp_path)
    census = make_census(tmp_path).model_copy(update={"files": (WeightFile(name="model.safetensors", bytes=size),)})
    ref = ModelRef(kind=ModelKind.HUB, location=REPOSITORY, commit=COMMIT)
    return profile.model_copy(update={"ref": ref, "tensors": census})


def fetch(profile: ModelProfile) -> Path:
    return local_source(profile, trust_remote_code=False, progress=silent)


def test_downloaded_once(hub: type[Hub], tmp_path: Path) -> None:
    folder = fetch(hub_profile(tmp_path))
    assert (folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]
    assert (folder / "tokenizer.json").is_file()
    assert not (folder / "onnx").exists()
    hub.asked.clear()
    assert fetch(hub_profile(tmp_path)) == folder
    assert hub.asked == []


def test_another_size_than_analyze_saw_is_refused(hub: type[Hub], tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="not complete"):
        fetch(hub_profile(tmp_path, size=12345))


def test_a_hub_that_is_gone(hub: type[Hub], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(time, "sleep", lambda _: None)  # the library waits between its tries
    with pytest.raises(ModelNotFoundError, match="does not give") as caught:
        fetch(hub_profile(tmp_path))
    assert "HF_ENDPOINT" in (caught.value.hint or "")


def test_room_is_asked_for_first(hub: type[Hub], tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="Downloading"):
        fetch(hub_profile(tmp_path, size=1 << 60))
    assert not any("resolve" in path for path in hub.asked)


def test_growth_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autoadapter.optimize.growth.PERIOD_SECONDS", 0.01)
    seen: list[float | None] = []
    (tmp_path / "half").write_bytes(bytes(50))
    with watch_growth(tmp_path, 100, "x", lambda text, fraction=None: seen.append(fraction)):
        while not seen:
            pass
    assert seen[0] == 0.5
