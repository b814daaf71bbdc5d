"""A Hub id without the Hub: what an earlier download left in the cache is read, and said to be."""

from pathlib import Path

import pytest
from huggingface_hub import constants

from autoadapter.analyze import analyze, input_digest, resolve_model
from autoadapter.analyze.sources import hub_cache
from autoadapter.artifacts import ModelKind
from autoadapter.errors import AutoadapterError, BrokenCheckpointError, ModelNotFoundError, UserError
from tests.unit.analyze.analyze_files import LLAMA_SHAPES, safetensors_bytes, write_model
from tests.unit.analyze.hub_server import HubServer, serving

COMMIT = "c" * 40
DIGEST = "d" * 64
NOWHERE = "http://127.0.0.1:9"
"""The port for discarding: nothing listens there."""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    hub_cache._snapshot.cache_clear()
    return tmp_path / "hub"


@pytest.fixture(params=["offline", "unreachable"])
def cut_off(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "offline":
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    else:
        monkeypatch.setattr(constants, "ENDPOINT", NOWHERE)


def download(cache: Path, tmp_path: Path, leave_out: str = "") -> Path:
    """What `huggingface_hub` leaves behind: refs, blobs and a snapshot of links."""
    model = cache / "models--org--name"
    folder = model / "snapshots" / COMMIT
    for part in (folder, model / "blobs", model / "refs"):
        part.mkdir(parents=True)
    (model / "refs" / "main").write_text(COMMIT)
    for path in write_model(tmp_path / "whole").iterdir():
        blob = DIGEST if path.suffix == ".safetensors" else "e" * 40
        if path.name != leave_out:
            (model / "blobs" / blob).write_bytes(path.read_bytes())
            (folder / path.name).symlink_to(Path("../../blobs") / blob)
    return folder


@pytest.mark.usefixtures("cut_off")
def test_cached_model_is_read(cache: Path, tmp_path: Path) -> None:
    download(cache, tmp_path)
    ref = resolve_model("org/name")
    assert (ref.kind, ref.location, ref.commit) == (ModelKind.HUB, "org/name", COMMIT)
    found = analyze(ref, vllm_version="0.32.0", platform="cpu")
    assert found.tensors.tensors == len(LLAMA_SHAPES)
    assert [file.digest for file in found.tensors.files] == [DIGEST]
    (told,) = [finding for finding in found.findings if finding.code == "source.cached"]
    assert told.message == f"The Hub was not asked: org/name was read from the local cache, snapshot {COMMIT}."
    assert input_digest(ref) == input_digest(ref)


@pytest.mark.usefixtures("cut_off")
def test_revision_that_is_not_cached(cache: Path, tmp_path: Path) -> None:
    download(cache, tmp_path)
    assert resolve_model("org/name", revision=COMMIT).commit == COMMIT
    with pytest.raises(UserError, match="org/name"):
        resolve_model("org/name", revision="v2")


@pytest.mark.usefixtures("cut_off")
def test_nothing_cached(cache: Path) -> None:
    with pytest.raises(UserError, match=r"HF_HUB_OFFLINE forbids|cannot be reached") as caught:
        resolve_model("org/name")
    assert caught.value.hint is not None and "local copy" in caught.value.hint


@pytest.mark.usefixtures("cut_off")
def test_half_a_download(cache: Path, tmp_path: Path) -> None:
    """A snapshot without weights is a model without weights; without a config it is none."""
    folder = download(cache, tmp_path, leave_out="model.safetensors")
    found = analyze(resolve_model("org/name"), vllm_version="0.32.0", platform="cpu")
    assert "weights.none" in {finding.code for finding in found.findings}
    (folder / "config.json").unlink()
    with pytest.raises(AutoadapterError, match="no config"):
        analyze(resolve_model("org/name"), vllm_version="0.32.0", platform="cpu")


@pytest.mark.usefixtures("cut_off")
def test_index_of_a_half_download(cache: Path, tmp_path: Path) -> None:
    folder = download(cache, tmp_path)
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"x": "model-00002-of-00002.safetensors"}}')
    (folder / "model.safetensors").unlink()
    with pytest.raises(BrokenCheckpointError, match=r"names the shard model-00002-of-00002\.safetensors"):
        analyze(resolve_model("org/name"), vllm_version="0.32.0", platform="cpu")


def test_the_hub_is_asked_first(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    download(cache, tmp_path)
    files = {
        "config.json": b'{"architectures": ["OPTForCausalLM"]}',
        "model.safetensors": safetensors_bytes({"w": (2,)}),
    }
    with serving(HubServer("org/name", files)) as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        assert resolve_model("org/name").commit != COMMIT


def test_a_refusal_is_no_reason_for_the_cache(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Hub answers that there is no such model: an old copy must not pass for it."""
    download(cache, tmp_path)
    with serving(HubServer("org/other", {})) as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        with pytest.raises(ModelNotFoundError):
            resolve_model("org/name")
