"""Hub models against a server on this machine: headers only, and one clear sentence for each refusal."""

import json
from collections.abc import Iterator

import huggingface_hub.constants as constants
import pytest

from autoadapter.analyze import analyze, input_digest, resolve_model
from autoadapter.artifacts import ModelKind, ModelProfile
from autoadapter.errors import BrokenCheckpointError, ModelNotFoundError, UserError
from tests.unit.analyze.analyze_files import (
    LLAMA,
    LLAMA_PARAMETERS,
    LLAMA_SHAPES,
    gguf_llama,
    safetensors_bytes,
    torch_bytes,
)
from tests.unit.analyze.hub_server import COMMIT, HubServer, serving

BIG = {"w.weight": (4096, 1024)}
"""8 MiB in bfloat16: reading any of it would show in the server's count."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    files = {
        "config.json": json.dumps(LLAMA).encode(),
        "tokenizer_config.json": b'{"eos_token": "</s>"}',
        "model.safetensors": safetensors_bytes(LLAMA_SHAPES),
        "onnx/model.onnx": b"x" * 100_000,
    }
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with serving(HubServer("owner/tiny", files)) as server:
        point_at(monkeypatch, server.url)
        yield server


def point_at(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)


def profile(text: str = "owner/tiny", revision: str | None = None) -> ModelProfile:
    return analyze(resolve_model(text, revision=revision), vllm_version="0.32.0", platform="cuda")


def test_resolves_to_a_commit(hub: HubServer) -> None:
    ref = resolve_model("owner/tiny", revision="v1")
    assert (ref.kind, ref.location, ref.revision, ref.commit) == (ModelKind.HUB, "owner/tiny", "v1", COMMIT)
    assert resolve_model("owner/tiny").revision is None


def test_profile_of_a_hub_model(hub: HubServer) -> None:
    found = profile()
    assert found.tensors.parameters == LLAMA_PARAMETERS
    assert found.tensors.files[0].digest == "sha-model.safetensors"
    assert found.license == "mit"
    assert "onnx/model.onnx" not in hub.served


def test_only_headers_are_served(hub: HubServer) -> None:
    hub.files["model.safetensors"] = safetensors_bytes(LLAMA_SHAPES | BIG)
    assert profile().tensors.bytes == 2 * (LLAMA_PARAMETERS + 4096 * 1024)
    assert hub.served["model.safetensors"] <= 128 * 1024


def test_long_header_is_fetched_whole(hub: HubServer) -> None:
    shapes = {f"model.layers.{number}.weight": (2, 2) for number in range(3000)}
    hub.files["model.safetensors"] = safetensors_bytes(shapes | BIG)
    assert profile().tensors.tensors == 3001
    assert 128 * 1024 < hub.served["model.safetensors"] < 512 * 1024


def test_bin_and_gguf_by_range(hub: HubServer) -> None:
    del hub.files["model.safetensors"]
    hub.files["pytorch_model.bin"] = torch_bytes(LLAMA_SHAPES | {"big.weight": (1024, 1024)})
    assert profile().tensors.parameters == LLAMA_PARAMETERS + 1024 * 1024
    assert hub.served["pytorch_model.bin"] < 1024 * 1024 < len(hub.files["pytorch_model.bin"])
    hub.files = {"m.gguf": gguf_llama() + bytes(8_000_000)}
    assert profile().verdict.outcome == "will_start"
    assert hub.served["m.gguf"] <= 1024 * 1024


def test_digest_follows_the_listing(hub: HubServer) -> None:
    ref = resolve_model("owner/tiny")
    first = input_digest(ref)
    assert input_digest(ref) == first and "model.safetensors" not in hub.served
    hub.files["config.json"] += b" "
    assert input_digest(ref) != first


def test_token_is_sent(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_testtoken")
    profile()
    assert hub.authorization == {"Bearer hf_testtoken"}


@pytest.mark.parametrize(("status", "code"), [(401, "GatedRepo"), (403, "GatedRepo"), (401, "")])
def test_gated(hub: HubServer, status: int, code: str) -> None:
    hub.refuse = (status, code)
    with pytest.raises(UserError) as caught:
        profile()
    assert str(caught.value) == f"owner/tiny is gated or private and the Hub refuses this token ({status})."
    assert caught.value.hint == (
        "Accept the license on the model's page, then set HF_TOKEN to a token of that account."
    )


def test_missing_repository(hub: HubServer) -> None:
    with pytest.raises(ModelNotFoundError) as caught:
        profile("owner/nothing")
    assert str(caught.value) == ("There is no folder 'owner/nothing' here and the Hub knows no model of that name.")
    hub.refuse = (401, "RepoNotFound")
    with pytest.raises(ModelNotFoundError):
        profile()


def test_missing_revision(hub: HubServer) -> None:
    with pytest.raises(ModelNotFoundError) as caught:
        profile(revision="v9")
    assert str(caught.value) == "owner/tiny has no revision 'v9'."


def test_offline_by_setting(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UserError) as caught:
        profile()
    assert str(caught.value) == "owner/tiny is on the Hub and HF_HUB_OFFLINE forbids asking it."
    assert caught.value.hint == "Unset HF_HUB_OFFLINE, or give the path of a local copy."
    assert not hub.served


def test_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    point_at(monkeypatch, "http://127.0.0.1:9")
    with pytest.raises(UserError) as caught:
        profile()
    assert str(caught.value) == ("The Hub at http://127.0.0.1:9 cannot be reached for owner/tiny (ConnectError).")
    assert caught.value.exit_code == 2


def test_endpoint_that_is_no_hub(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "listing", lambda: b"<html>Log in to the network</html>")
    with pytest.raises(UserError, match=r"answers, but not as a Hub does\."):
        profile()


@pytest.mark.parametrize("url", ["http://127.0.0.1:port", "nonsense"])
def test_endpoint_that_is_no_address(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    point_at(monkeypatch, url)
    with pytest.raises(UserError, match=r"cannot be reached for owner/tiny"):
        profile()


def test_first_broken_shard_stops_the_rest(hub: HubServer) -> None:
    names = [f"model-{number:05d}-of-00060.safetensors" for number in range(1, 61)]
    good = {name: safetensors_bytes({f"layer.{name}": (2,)}) for name in names}
    del hub.files["model.safetensors"]
    hub.files |= good | {names[0]: b"<html>" * 20}
    with pytest.raises(BrokenCheckpointError, match="not a safetensors file"):
        profile()
    assert len(hub.served) < 60


def test_server_error(hub: HubServer) -> None:
    hub.refuse = (503, "")
    with pytest.raises(UserError, match=r"answers 503 for owner/tiny\."):
        profile()


def test_server_without_ranges_is_refused_before_the_weights_come(hub: HubServer) -> None:
    hub.ranges = False
    with pytest.raises(UserError, match=r"ignores byte ranges for owner/tiny/model.safetensors\."):
        profile()


def test_truncated_upload(hub: HubServer) -> None:
    hub.files["model.safetensors"] = hub.files["model.safetensors"][:-7]
    with pytest.raises(BrokenCheckpointError, match=r"owner/tiny/model.safetensors: truncated: the header describes"):
        profile()
