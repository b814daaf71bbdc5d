"""The Hub over HTTP: one listing, small files whole, weights by `Range` alone.

huggingface_hub knows the endpoint, the token and the URLs; this file only asks for byte ranges, which its
downloader cannot do. No answer is trusted for its length: `fetch` ends each of them.
"""

import json
import re
from collections.abc import Mapping
from functools import cache, cached_property
from typing import ClassVar, NoReturn, TypeGuard
from urllib.parse import quote, urlsplit

import httpx
from huggingface_hub import constants, hf_hub_url
from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]
from pydantic import JsonValue

from autoadapter.analyze.sources.byte_source import ByteSource, require_range
from autoadapter.analyze.sources.fetch import EndlessError, Fetched, Request, fetch
from autoadapter.analyze.sources.repository import MOST_SIDE_FILE_BYTES, FileStat, is_named_template
from autoadapter.analyze.text import load_json
from autoadapter.artifacts import Finding
from autoadapter.errors import BrokenCheckpointError, ModelNotFoundError, UserError

TIMEOUT_SECONDS = 20.0
READ_AHEAD_BYTES = 128 * 1024
"""First bite into a weight file: holds the whole safetensors header of most shards, so one request is enough."""
MOST_LISTING_BYTES = 16 * 1024 * 1024
"""A repository's listing: some 300 bytes a file, so fifty thousand files."""
MOST_RANGE_BYTES = 256 * 1024 * 1024
"""No header is longer: safetensors allows 100 MB, and a `data.pkl` of the largest models has a few."""
COMMIT = re.compile(r"[0-9a-f]{40}")
CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
LOOPBACK = {"127.0.0.1", "localhost", "::1"}


def hub_client() -> httpx.Client:
    """An HTTP client for the configured endpoint; the environment's proxies are not used for this machine.

    One for each endpoint and token: opening the system's certificates costs more than a small request.
    """
    near = urlsplit(constants.ENDPOINT).hostname in LOOPBACK
    headers = build_hf_headers(library_name="autoadapter")
    return _shared_client(tuple(sorted(headers.items())), near)


@cache
def _shared_client(headers: tuple[tuple[str, str], ...], near: bool) -> httpx.Client:
    return httpx.Client(headers=dict(headers), timeout=TIMEOUT_SECONDS, trust_env=not near)


class HubUnreachableError(UserError):
    """The Hub may not be asked, or does not answer."""


class HubRepository:
    """A Hub repository at one revision."""

    remote: ClassVar[bool] = True

    def __init__(self, repo_id: str, revision: str) -> None:
        """Describe a repository; nothing is asked of the Hub yet.

        Args:
            repo_id: `owner/name`, or `name` for the oldest models.
            revision: branch, tag or commit.
        """
        self._repo_id = repo_id
        self._revision = revision

    @property
    def location(self) -> str:
        """The Hub id."""
        return self._repo_id

    @cached_property
    def _client(self) -> httpx.Client:
        return hub_client()

    @cached_property
    def _info(self) -> dict[str, JsonValue]:
        path = f"/api/models/{self._repo_id}/revision/{quote(self._revision, safe='')}"
        url = constants.ENDPOINT + path
        answer = self._fetch(Request(url, MOST_LISTING_BYTES, params={"blobs": "true"}), self._repo_id)
        try:
            document = load_json(answer.body, self._repo_id)
        except BrokenCheckpointError:
            document = None
        sha = document.get("sha") if isinstance(document, dict) else None
        if not isinstance(document, dict) or not isinstance(sha, str) or not COMMIT.fullmatch(sha):
            raise UserError(f"{constants.ENDPOINT} answers, but not as a Hub does.", hint="Check HF_ENDPOINT.")
        return document

    @property
    def commit(self) -> str:
        """The 40-hex commit that the revision stands for."""
        return str(self._info["sha"])

    def files(self) -> Mapping[str, FileStat]:
        """See `Repository.files`; folders are left out, as vLLM's loader does, but for chat templates."""
        return self._files

    def not_files(self) -> Mapping[str, str]:
        """None: the Hub lists files alone."""
        return {}

    @cached_property
    def _rows(self) -> Mapping[str, dict[str, JsonValue]]:
        siblings = self._info.get("siblings")
        rows = [row for row in siblings if isinstance(row, dict)] if isinstance(siblings, list) else []
        return {str(row.get("rfilename")): row for row in rows}

    @cached_property
    def _files(self) -> Mapping[str, FileStat]:
        names = [name for name in sorted(self._rows) if "/" not in name or is_named_template(name)]
        return {name: _stat(self._rows[name]) for name in names}

    def _require_size(self, name: str, *, stated: bool) -> None:
        """A file's size is the listing's word alone: a number of bytes, which for small files may be left out."""
        size = self._rows[name].get("size")
        if _is_size(size) or (size is None and not stated):
            return
        word = "no size" if size is None else f"the size {json.dumps(size)[:40]}, which is no number of bytes"
        raise UserError(
            f"{constants.ENDPOINT} lists {self.label(name)} with {word}.",
            hint="Check HF_ENDPOINT, or download the model and analyze the folder.",
        )

    def read(self, name: str) -> bytes:
        """See `Repository.read`."""
        self._require_size(name, stated=False)
        listed = self.files()[name].bytes
        if listed > MOST_SIDE_FILE_BYTES:
            raise BrokenCheckpointError(self.label(name), "too large for a config or tokenizer file")
        body = self._fetch(Request(self._url(name), listed or MOST_SIDE_FILE_BYTES), self.label(name)).body
        if listed and len(body) != listed:
            raise BrokenCheckpointError(self.label(name), f"the Hub sent {len(body)} bytes and lists {listed}")
        return body

    def open(self, name: str) -> ByteSource:
        """See `Repository.open`."""
        self._require_size(name, stated=True)
        return _RangeSource(self, name, self.files()[name].bytes)

    def label(self, name: str) -> str:
        """`owner/name: file`."""
        return f"{self._repo_id}/{name}"

    def card_license(self) -> str | None:
        """The model card's `license`."""
        card = self._info.get("cardData")
        license_name = card.get("license") if isinstance(card, dict) else None
        return license_name if isinstance(license_name, str) else None

    def notes(self) -> tuple[Finding, ...]:
        """None."""
        return ()

    def fetch_range(self, name: str, offset: int, length: int) -> bytes:
        """Bytes `[offset, offset + length)` of a file by one `Range` request.

        Raises:
            UserError: the server ignores `Range`; reading on would download the weights.
            BrokenCheckpointError: it sends other bytes than were asked for, or more than any header has.
        """
        label = self.label(name)
        if length > MOST_RANGE_BYTES:
            raise BrokenCheckpointError(label, f"asks for a header of {length} bytes, more than any has")
        headers = {"Range": f"bytes={offset}-{offset + length - 1}"}
        request = Request(self._url(name), length, headers=headers, only_status=httpx.codes.PARTIAL_CONTENT)
        answer = self._fetch(request, label)
        if answer.status != httpx.codes.PARTIAL_CONTENT:
            raise UserError(
                f"{constants.ENDPOINT} ignores byte ranges for {label}.",
                hint="Download the model and analyze the folder.",
            )
        self._check_range(label, answer.headers.get("Content-Range", ""), offset, self.files()[name].bytes)
        if len(answer.body) != length:
            raise BrokenCheckpointError(label, f"the Hub sent {len(answer.body)} bytes instead of {length}")
        return answer.body

    @staticmethod
    def _check_range(label: str, said: str, offset: int, size: int) -> None:
        match = CONTENT_RANGE.fullmatch(said)
        if match is None or int(match[1]) != offset:
            shown = said[:60] or "no range"
            raise BrokenCheckpointError(label, f"byte {offset} was asked for, and the Hub sent {shown!r}")
        if match[3] != "*" and int(match[3]) != size:
            raise BrokenCheckpointError(label, f"the Hub lists {size} bytes and serves a file of {match[3]}")

    def _url(self, name: str) -> str:
        return hf_hub_url(self._repo_id, name, revision=self.commit, endpoint=constants.ENDPOINT)

    def _fetch(self, request: Request, what: str) -> Fetched:
        if constants.HF_HUB_OFFLINE:
            raise HubUnreachableError(
                f"{self._repo_id} is on the Hub and HF_HUB_OFFLINE forbids asking it.",
                hint="Unset HF_HUB_OFFLINE, or give the path of a local copy.",
            )
        try:
            answer = fetch(self._client, request)
        except EndlessError as error:
            raise BrokenCheckpointError(what, f"the Hub sends {error}, which were to be all") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            self._unreachable(error)
        self._check(answer, what)
        return answer

    def _unreachable(self, error: Exception) -> NoReturn:
        raise HubUnreachableError(
            f"The Hub at {constants.ENDPOINT} cannot be reached for {self._repo_id} ({type(error).__name__}).",
            hint="Check the network or HF_ENDPOINT, or give the path of a local copy.",
        ) from error

    def _check(self, answer: Fetched, what: str) -> None:
        if answer.status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            self._refused(answer)
        if answer.status == httpx.codes.NOT_FOUND:
            self._missing(answer, what)
        if not httpx.codes.is_success(answer.status):
            raise UserError(
                f"The Hub at {constants.ENDPOINT} answers {answer.status} for {self._repo_id}.",
                hint="Try again in a minute, or give the path of a local copy.",
            )

    def _refused(self, answer: Fetched) -> NoReturn:
        if answer.headers.get("X-Error-Code") == "RepoNotFound":
            self._missing(answer, self._repo_id)
        raise UserError(
            f"{self._repo_id} is gated or private and the Hub refuses this token ({answer.status}).",
            hint="Accept the license on the model's page, then set HF_TOKEN to a token of that account.",
        )

    def _missing(self, answer: Fetched, what: str) -> NoReturn:
        if what != self._repo_id:
            raise BrokenCheckpointError(
                what,
                "the Hub lists the file and does not have it",
                hint="Try again in a minute, or another --revision.",
            )
        if answer.headers.get("X-Error-Code") == "RevisionNotFound":
            raise ModelNotFoundError(
                f"{self._repo_id} has no revision {self._revision!r}.",
                hint="Leave --revision out for the main branch, or name a branch, tag or commit.",
            )
        raise ModelNotFoundError(
            f"There is no folder {self._repo_id!r} here and the Hub knows no model of that name.",
            hint="Check the spelling; a private model needs HF_TOKEN.",
        )


def _stat(row: dict[str, JsonValue]) -> FileStat:
    lfs, size = row.get("lfs"), row.get("size")
    sha256 = lfs.get("sha256") if isinstance(lfs, dict) else None
    blob = row.get("blobId")
    digest = sha256 if isinstance(sha256, str) else blob if isinstance(blob, str) else None
    return FileStat(size if _is_size(size) else 0, digest)


def _is_size(size: JsonValue) -> TypeGuard[int]:
    return isinstance(size, int) and not isinstance(size, bool) and size >= 0


class _RangeSource:
    """A file on the Hub, with its first bytes kept so that small headers cost one request."""

    def __init__(self, repository: HubRepository, name: str, size: int) -> None:
        self._repository = repository
        self._name = name
        self.label = repository.label(name)
        self.size = size
        self._head = b""

    def read(self, offset: int, length: int) -> bytes:
        require_range(self, offset, length)
        if not length:
            return b""
        if offset == 0 and not self._head:
            self._head = self._repository.fetch_range(self._name, 0, min(self.size, max(length, READ_AHEAD_BYTES)))
        if offset + length <= len(self._head):
            return self._head[offset : offset + length]
        return self._repository.fetch_range(self._name, offset, length)
