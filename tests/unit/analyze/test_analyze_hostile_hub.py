"""A Hub that means harm: bodies without an end, packed bombs, drips, lies about ranges and commits."""

import gzip
import itertools
import json
import time
from collections.abc import Iterator

import huggingface_hub.constants as constants
import pytest

from autoadapter.analyze import analyze, resolve_model
from autoadapter.analyze.sources import fetch
from autoadapter.errors import BrokenCheckpointError, UserError
from tests.unit.analyze.analyze_files import LLAMA, LLAMA_SHAPES, safetensors_bytes
from tests.unit.analyze.hub_server import COMMIT, HubServer, serving

MIB = b"x" * 1024 * 1024
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    files = {"config.json": json.dumps(LLAMA).encode(), "model.safetensors": safetensors_bytes(LLAMA_SHAPES)}
    with serving(HubServer("owner/tiny", files)) as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        template = server.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        yield server


class Endless:
    """Bytes without an end, counted."""

    def __init__(self, head: bytes, piece: bytes) -> None:
        self.head, self.piece, self.sent = head, piece, 0

    def __call__(self) -> Iterator[bytes]:
        yield self.head
        while True:
            self.sent += len(self.piece)
            yield self.piece


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def profile() -> None:
    analyze(resolve_model("owner/tiny"), vllm_version="0.32.0", platform="cuda")


def test_listing_without_an_end(hub: HubServer) -> None:
    endless = Endless(b"HTTP/1.1 200 OK\r\n\r\n", MIB)
    hub.wire["/revision/main"] = endless
    with pytest.raises(BrokenCheckpointError, match=r"owner/tiny: the Hub sends more than 16777216 bytes"):
        profile()
    assert endless.sent < 64 * len(MIB)


@pytest.mark.parametrize(
    ("name", "head", "piece"),
    [
        ("config.json", CHUNKED, chunk(MIB)),
        ("model.safetensors", b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-9/10\r\n\r\n", MIB),
    ],
)
def test_file_without_an_end(hub: HubServer, name: str, head: bytes, piece: bytes) -> None:
    endless = Endless(head, piece)
    hub.wire[f"/{name}"] = endless
    with pytest.raises(BrokenCheckpointError, match=rf"owner/tiny/{name}: the Hub sends more than \d+ bytes"):
        profile()
    assert endless.sent < 64 * len(MIB)


def test_redirect_whose_body_has_no_end(hub: HubServer) -> None:
    target = f"{hub.url}/owner/tiny/resolve/main/config.json"
    endless = Endless(f"HTTP/1.1 302 Found\r\nLocation: {target}\r\n\r\n".encode(), MIB)
    hub.wire[f"/{COMMIT}/config.json"] = endless
    profile()
    assert endless.sent < 64 * len(MIB)


def test_redirects_in_a_circle(hub: HubServer) -> None:
    hub.wire["/config.json"] = lambda: iter(
        [b"HTTP/1.1 302 Found\r\nLocation: config.json\r\nContent-Length: 0\r\n\r\n"]
    )
    with pytest.raises(UserError, match=r"cannot be reached for owner/tiny \(TooManyRedirects\)"):
        profile()


def test_packed_bomb(hub: HubServer) -> None:
    bomb = gzip.compress(bytes(50_000_000))
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n\r\n".encode()
    hub.wire["/config.json"] = lambda: iter([head, bomb])
    with pytest.raises(UserError, match="DecodingError"):
        profile()


def _drip(head: bytes, piece: bytes) -> Iterator[bytes]:
    yield head
    for _ in range(200):
        time.sleep(0.1)
        yield piece


@pytest.mark.parametrize(
    "drip",
    [
        lambda: _drip(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b" "),
        lambda: _drip(b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x"),
        lambda: itertools.chain(_drip(b"", b"")),
    ],
    ids=["body", "headers", "silence"],
)
def test_drip(hub: HubServer, monkeypatch: pytest.MonkeyPatch, drip: object) -> None:
    monkeypatch.setattr(fetch, "SECONDS", 0.5)
    monkeypatch.setattr(fetch, "SLOWEST_BYTES_PER_SECOND", 2**40)
    hub.wire["/config.json"] = drip  # type: ignore[assignment]
    began = time.monotonic()
    with pytest.raises(UserError, match=r"cannot be reached for owner/tiny \(ReadTimeout\)"):
        profile()
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("bytes 5-9/10", "byte 0 was asked for, and the Hub sent 'bytes 5-9/10'"),
        ("bytes 0-9/10", r"the Hub lists \d+ bytes and serves a file of 10"),
        ("", "byte 0 was asked for, and the Hub sent 'no range'"),
    ],
)
def test_other_range_than_was_asked_for(hub: HubServer, said: str, sentence: str) -> None:
    head = f"HTTP/1.1 206 Partial Content\r\nContent-Range: {said}\r\nContent-Length: 10\r\n\r\n".encode()
    hub.wire["/model.safetensors"] = lambda: iter([head, b"0123456789"])
    with pytest.raises(BrokenCheckpointError, match=sentence):
        profile()


def test_header_that_would_fill_the_memory_is_not_asked_for(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    from autoadapter.analyze.sources.hub import HubRepository

    with pytest.raises(BrokenCheckpointError, match="asks for a header of 1099511627776 bytes"):
        HubRepository("owner/tiny", "main").fetch_range("model.safetensors", 0, 2**40)
    assert not hub.served


@pytest.mark.parametrize("sha", ["main", "A" * 40, "a" * 39, "../" * 13 + "a", None, 7])
def test_commit_that_is_none(hub: HubServer, monkeypatch: pytest.MonkeyPatch, sha: object) -> None:
    monkeypatch.setattr(hub, "listing", lambda: json.dumps({"sha": sha, "siblings": []}).encode())
    with pytest.raises(UserError, match=r"answers, but not as a Hub does\."):
        profile()


def test_listed_file_that_is_missing_is_not_a_missing_model(hub: HubServer) -> None:
    hub.wire["/config.json"] = lambda: iter([b"HTTP/1.1 404 Not Found\r\nX-Error-Code: EntryNotFound\r\n\r\n"])
    with pytest.raises(BrokenCheckpointError) as caught:
        profile()
    assert str(caught.value) == "owner/tiny/config.json: the Hub lists the file and does not have it."


def test_shorter_file_than_listed(hub: HubServer) -> None:
    hub.wire["/config.json"] = lambda: iter([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"])
    with pytest.raises(BrokenCheckpointError, match=r"owner/tiny/config.json: the Hub sent 2 bytes and lists \d+\."):
        profile()


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
@pytest.mark.parametrize("size", [-1, "12", 1.5, True, [], {}])
def test_a_size_that_is_none_is_the_listings_fault(
    hub: HubServer, monkeypatch: pytest.MonkeyPatch, name: str, size: object
) -> None:
    document = json.loads(hub.listing())
    for row in document["siblings"]:
        if row["rfilename"] == name:
            row["size"] = size
    monkeypatch.setattr(hub, "listing", lambda: json.dumps(document).encode())
    with pytest.raises(UserError) as caught:
        profile()
    assert not isinstance(caught.value, BrokenCheckpointError)
    word = f"with the size {json.dumps(size)}, which is no number of bytes."
    assert str(caught.value) == f"{hub.url} lists owner/tiny/{name} {word}"


def test_weights_without_a_listed_size(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    document = json.loads(hub.listing())
    for row in document["siblings"]:
        row.pop("size")
    monkeypatch.setattr(hub, "listing", lambda: json.dumps(document).encode())
    with pytest.raises(UserError, match=r"lists owner/tiny/model.safetensors with no size\.$"):
        profile()
