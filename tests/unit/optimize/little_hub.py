"""A little Hub on 127.0.0.1 that speaks as much of the API as a snapshot needs."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from autoadapter.sample import REPOSITORY

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    "config.json": b'{"model_type": "llama"}',
    "tokenizer.json": b"{}",
    "tokenizer_config.json": b"{}",
    "generation_config.json": b"{}",
    "model.safetensors": b"\x02\0\0\0\0\0\0\0{}",
    "onnx/model.onnx": b"not wanted",
    "README.md": b"not wanted",
}


class Hub(BaseHTTPRequestHandler):
    """Speaks as much of the Hub's API as a snapshot needs."""

    files: dict[str, bytes] = FILES
    asked: list[str] = []  # noqa: RUF012 - shared on purpose: the server makes one handler a request
    cut: str | None = None

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        path = self.path.partition("?")[0]
        self.asked.append(path)
        repo = REPOSITORY
        if path in (f"/api/models/{repo}", f"/api/models/{repo}/revision/{COMMIT}"):
            siblings = [{"rfilename": name} for name in self.files]
            return self.send(json.dumps({"id": repo, "sha": COMMIT, "siblings": siblings}).encode(), body)
        if path.startswith(f"/api/models/{repo}/tree/"):
            return self.send(json.dumps([self.entry(name) for name in self.files]).encode(), body)
        name = path.removeprefix(f"/{repo}/resolve/{COMMIT}/")
        if name in self.files:
            return self.send(self.files[name], body, name)
        self.send_error(404)

    def entry(self, name: str) -> dict[str, object]:
        content = self.files[name]
        return {"type": "file", "path": name, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}

    def send(self, content: bytes, body: bool, name: str | None = None) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
        self.end_headers()
        if body:
            self.wfile.write(content[:-1] if name and name == self.cut else content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Quiet."""


@contextmanager
def serving() -> Iterator[tuple[type[Hub], str]]:
    """A Hub of one's own and its address."""
    handler = type("OneHub", (Hub,), {"asked": [], "files": dict(FILES)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield handler, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
