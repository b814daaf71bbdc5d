"""One GET with an end: at most so many bytes, within so many seconds, whatever the server does.

The body is read as it comes over the wire, never unpacked, and redirects are followed here, because httpx would read
their bodies without a limit.
"""

import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import httpx

SECONDS = 30.0
"""What a request may take before its first byte counts."""
SLOWEST_BYTES_PER_SECOND = 128 * 1024
"""A server slower than that is given up: 64 KiB in half a minute, a tokenizer of 33 MB in five."""
MOST_REDIRECTS = 10
IDENTITY = {"Accept-Encoding": "identity"}
"""Packed answers could grow a thousandfold."""

Value = TypeVar("Value")


class EndlessError(httpx.HTTPError):
    """The body is longer than it may be; `str(error)` says how long that is."""


@dataclass(frozen=True)
class Fetched:
    """An answer: status, headers, and the body of a success; refusals keep none."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Request:
    """What to ask for."""

    url: str
    most_bytes: int
    """Length that the body cannot exceed."""
    params: Mapping[str, str] | None = None
    headers: Mapping[str, str] | None = None
    only_status: int | None = None
    """Read the body of this status alone; None for any success."""

    @property
    def seconds(self) -> float:
        """The time limit for all of it."""
        return SECONDS + self.most_bytes / SLOWEST_BYTES_PER_SECOND


def fetch(client: httpx.Client, request: Request) -> Fetched:
    """Ask once.

    Raises:
        EndlessError: more bytes came than the request allows.
        httpx.HTTPError: the server cannot be reached, breaks the protocol, packs its answer, or takes too long.
        httpx.InvalidURL: the address is none.
    """
    until = time.monotonic() + request.seconds
    return _within(request.seconds, lambda: _follow(client, request, until))


def _within(seconds: float, work: Callable[[], Value]) -> Value:
    """Run in a thread that can be left behind: a server may drip headers, and no timeout of httpx adds them up."""
    box: queue.SimpleQueue[tuple[Value | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            box.put((work(), None))
        except BaseException as error:
            box.put((None, error))

    threading.Thread(target=run, daemon=True, name="autoadapter-fetch").start()
    try:
        value, error = box.get(timeout=seconds)
    except queue.Empty:
        raise httpx.ReadTimeout(f"not answered within {seconds:.0f} seconds") from None
    if error is not None:
        raise error
    return value  # type: ignore[return-value]  # an answer came, as there was no error


def _follow(client: httpx.Client, request: Request, until: float) -> Fetched:
    headers = {**(request.headers or {}), **IDENTITY}
    asked = client.build_request("GET", request.url, params=request.params, headers=headers)
    for _ in range(MOST_REDIRECTS):
        answer = client.send(asked, stream=True, follow_redirects=False)
        try:
            if answer.next_request is None:
                return _read(answer, request, until)
            asked = answer.next_request
        finally:
            answer.close()
    raise httpx.TooManyRedirects(f"more than {MOST_REDIRECTS} redirects", request=asked)


def _read(answer: httpx.Response, request: Request, until: float) -> Fetched:
    wanted = answer.status_code == request.only_status if request.only_status else answer.is_success
    if not wanted:
        return Fetched(answer.status_code, answer.headers, b"")
    if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise httpx.DecodingError("the answer is packed although no packing was asked for", request=answer.request)
    body = bytearray()
    for chunk in answer.iter_raw():
        body += chunk
        if len(body) > request.most_bytes:
            raise EndlessError(f"more than {request.most_bytes} bytes")
        if time.monotonic() > until:
            raise httpx.ReadTimeout(f"not finished within {request.seconds:.0f} seconds")
    return Fetched(answer.status_code, answer.headers, bytes(body))
