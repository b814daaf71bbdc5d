"""A Hub on 127.0.0.1 for tools that read no folder: listings, files with `Range`, and the real one's headers."""

import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

COMMIT = "b" * 40
API = re.compile(r"/api/models/(?P<repo>[^/]+/[^/]+)(?:/(?P<what>revision|tree)/[^/]+)?")
FILE = re.compile(r"/(?P<repo>[^/]+/[^/]+)/resolve/[^/]+/(?P<name>[^/]+)")
SPAN = re.compile(r"bytes=(\d+)-(\d*)")
MOST_BYTES = 64 * 1024 * 1024
"""Of one answer: a peer that asks for the weights themselves gets no further."""


def _rows(folder: Path) -> list[dict[str, Any]]:
    return [_row(path) for path in sorted(folder.iterdir()) if path.is_file()]


def _row(path: Path) -> dict[str, Any]:
    digest = hashlib.sha256(path.name.encode()).hexdigest()
    row: dict[str, Any] = {"type": "file", "path": path.name, "rfilename": path.name, "size": path.stat().st_size}
    row |= {"oid": digest[:40], "blobId": digest[:40]}
    if path.suffix == ".safetensors":
        row["lfs"] = {"oid": digest, "sha256": digest, "size": row["size"], "pointerSize": 134}
    return row


def _api(repo: str, folder: Path, what: str | None) -> bytes:
    if what == "tree":
        return json.dumps(_rows(folder)).encode()
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    document = {
        "id": repo,
        "modelId": repo,
        "sha": COMMIT,
        "private": False,
        "gated": False,
        "library_name": "transformers",
        "tags": ["transformers", "safetensors"],
        "config": {"architectures": config["architectures"], "model_type": config["model_type"]},
        "siblings": _rows(folder),
    }
    return json.dumps(document).encode()


class _Handler(BaseHTTPRequestHandler):
    """Answers for the folders that `serving` sets."""

    protocol_version = "HTTP/1.1"
    repositories: ClassVar[Mapping[str, Path]] = {}

    def do_GET(self) -> None:
        """With a body."""
        self._answer(body=True)

    def do_HEAD(self) -> None:
        """Headers alone."""
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        api, file = API.fullmatch(path), FILE.fullmatch(path)
        if api and api["repo"] in self.repositories:
            self._send(200, {}, _api(api["repo"], self.repositories[api["repo"]], api["what"]), body)
        elif file and file["repo"] in self.repositories and (self.repositories[file["repo"]] / file["name"]).is_file():
            self._send_file(self.repositories[file["repo"]] / file["name"], body)
        else:
            code = "EntryNotFound" if file and file["repo"] in self.repositories else "RepoNotFound"
            self._send(404, {"X-Error-Code": code}, b"", body)

    def _send_file(self, path: Path, body: bool) -> None:
        size, span = path.stat().st_size, SPAN.fullmatch(self.headers.get("Range", ""))
        first, last = (int(span[1]), int(span[2] or size - 1)) if span else (0, size - 1)
        count = min(last, size - 1) - first + 1
        etag = hashlib.sha256(path.name.encode()).hexdigest()
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes", "X-Linked-Size": str(size)}
        if not body:
            self._send(200, headers, b"", body, length=size)
            return
        with path.open("rb") as file:
            file.seek(first)
            data = file.read(min(count, MOST_BYTES))
        if span:
            headers["Content-Range"] = f"bytes {first}-{first + len(data) - 1}/{size}"
        self._send(206 if span else 200, headers, data, body)

    def _send(
        self, status: int, headers: Mapping[str, str], data: bytes, body: bool, length: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data) if length is None else length))
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, format: str, *arguments: object) -> None:
        """Quiet."""


@contextmanager
def serving(repositories: Mapping[str, Path]) -> Iterator[str]:
    """Serve folders as repositories; yields the endpoint's URL."""
    handler = type("Handler", (_Handler,), {"repositories": repositories})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
