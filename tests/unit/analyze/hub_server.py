"""A Hub on 127.0.0.1: the listing, files with `Range`, and the refusals that the real one gives."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

COMMIT = "a" * 40


class HubServer:
    """Serves one repository and counts the bytes of each file that it sends."""

    def __init__(self, repo_id: str, files: Mapping[str, bytes], *, license_name: str = "mit") -> None:
        self.repo_id = repo_id
        self.files = dict(files)
        self.license = license_name
        self.refuse: tuple[int, str] | None = None
        self.ranges = True
        self.wire: dict[str, Callable[[], Iterator[bytes]]] = {}
        """End of a path → the bytes of the whole answer, head and all, sent until the client has had enough."""
        self.served: dict[str, int] = {}
        self.authorization: set[str | None] = set()
        self.url = ""

    def listing(self) -> bytes:
        siblings = [
            {"rfilename": name, "size": len(data), "blobId": f"blob-{name}"}
            | ({"lfs": {"sha256": f"sha-{name}", "size": len(data)}} if name.endswith((".safetensors", ".bin")) else {})
            for name, data in self.files.items()
        ]
        document = {"id": self.repo_id, "sha": COMMIT, "siblings": siblings, "cardData": {"license": self.license}}
        return json.dumps(document).encode()

    def answer(self, path: str, span: str | None) -> tuple[int, dict[str, str], bytes]:
        if self.refuse is not None:
            return self.refuse[0], {"X-Error-Code": self.refuse[1]}, b""
        for revision in ("main", "v1", COMMIT):
            if path in (f"/api/models/{self.repo_id}/revision/{revision}", f"/api/models/{self.repo_id}"):
                return 200, {}, self.listing()
            prefix = f"/{self.repo_id}/resolve/{revision}/"
            if path.startswith(prefix) and path.removeprefix(prefix) in self.files:
                return self.file(path.removeprefix(prefix), span)
        if path.startswith(f"/api/models/{self.repo_id}/revision/"):
            return 404, {"X-Error-Code": "RevisionNotFound"}, b""
        return 404, {"X-Error-Code": "RepoNotFound"}, b""

    def file(self, name: str, span: str | None) -> tuple[int, dict[str, str], bytes]:
        data, status = self.files[name], 200
        headers: dict[str, str] = {}
        if span is not None and self.ranges:
            first, _, last = span.removeprefix("bytes=").partition("-")
            headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
            data, status = data[int(first) : int(last) + 1], 206
        self.served[name] = self.served.get(name, 0) + len(data)
        return status, headers, data


@contextmanager
def serving(hub: HubServer) -> Iterator[HubServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hub.authorization.add(self.headers.get("Authorization"))
            path = unquote(urlsplit(self.path).path)
            raw = next((raw for end, raw in hub.wire.items() if path.endswith(end)), None)
            if raw is not None:
                self.send_raw(raw())
                return
            status, headers, data = hub.answer(path, self.headers.get("Range"))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def send_raw(self, chunks: Iterator[bytes]) -> None:
            self.close_connection = True
            with suppress(OSError):
                for chunk in chunks:
                    self.wfile.write(chunk)
                    self.wfile.flush()

        def log_message(self, format: str, *arguments: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
