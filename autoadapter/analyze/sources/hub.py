"""The Hub over HTTP: one listing, small files whole, weights by `Range` alone.

huggingface_hub knows the endpoint, the token and the URLs; this file only asks for byte ranges, which its
downloader cannot do.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import NoReturn
from urllib.parse import quote, urlsplit

import httpx
from huggingface_hub import constants, hf_hub_url
from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]
from pydantic import JsonValue

from autoadapter.analyze.sources.byte_source import ByteSource, require_range
from autoadapter.analyze.sources.repository import MOST_SIDE_FILE_BYTES, FileStat
from autoadapter.errors import BrokenCheckpointError, ModelNotFoundError, UserError

TIMEOUT_SECONDS = 20.0
READ_AHEAD_BYTES = 64 * 1024
"""First bite into a weight file: holds the whole safetensors header of most shards, so one request is enough."""
LOOPBACK = {"127.0.0.1", "localhost", "::1"}


def hub_client() -> httpx.Client:
    """An HTTP client for the configured endpoint; the environment's proxies are not used for this machine."""
    near = urlsplit(constants.ENDPOINT).hostname in LOOPBACK
    headers = build_hf_headers(library_name="autoadapter")
    return httpx.Client(headers=headers, timeout=TIMEOUT_SECONDS, follow_redirects=True, trust_env=not near)


class HubRepository:
    """A Hub repository at one revision."""

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
        answer = self._get(constants.ENDPOINT + path, params={"blobs": "true"})
        try:
            document: JsonValue = answer.json()
        except ValueError:
            document = None
        if not isinstance(document, dict) or not isinstance(document.get("sha"), str):
            raise UserError(f"{constants.ENDPOINT} answers, but not as a Hub does.", hint="Check HF_ENDPOINT.")
        return document

    @property
    def commit(self) -> str:
        """The 40-hex commit that the revision stands for."""
        return str(self._info["sha"])

    def files(self) -> Mapping[str, FileStat]:
        """See `Repository.files`; folders below the root are left out, as vLLM's loader does."""
        return self._files

    @cached_property
    def _files(self) -> Mapping[str, FileStat]:
        siblings = self._info.get("siblings")
        rows = [row for row in siblings if isinstance(row, dict)] if isinstance(siblings, list) else []
        stats = {str(row.get("rfilename")): _stat(row) for row in rows}
        return {name: stats[name] for name in sorted(stats) if "/" not in name}

    def read(self, name: str) -> bytes:
        """See `Repository.read`."""
        if self.files()[name].bytes > MOST_SIDE_FILE_BYTES:
            raise BrokenCheckpointError(self.label(name), "too large for a config or tokenizer file")
        return self._get(self._url(name)).content

    def open(self, name: str) -> ByteSource:
        """See `Repository.open`."""
        return _RangeSource(self, name, self.files()[name].bytes)

    def label(self, name: str) -> str:
        """`owner/name: file`."""
        return f"{self._repo_id}/{name}"

    def card_license(self) -> str | None:
        """The model card's `license`."""
        card = self._info.get("cardData")
        license_name = card.get("license") if isinstance(card, dict) else None
        return license_name if isinstance(license_name, str) else None

    def fetch_range(self, name: str, offset: int, length: int) -> bytes:
        """Bytes `[offset, offset + length)` of a file by one `Range` request.

        Raises:
            UserError: the server ignores `Range`; reading on would download the weights.
        """
        headers = {"Range": f"bytes={offset}-{offset + length - 1}"}
        try:
            with self._client.stream("GET", self._url(name), headers=headers) as answer:
                self._check(answer)
                if answer.status_code != httpx.codes.PARTIAL_CONTENT:
                    raise UserError(
                        f"{constants.ENDPOINT} ignores byte ranges for {self.label(name)}.",
                        hint="Download the model and analyze the folder.",
                    )
                data = answer.read()
        except httpx.HTTPError as error:
            self._unreachable(error)
        if len(data) != length:
            raise BrokenCheckpointError(self.label(name), f"the Hub sent {len(data)} bytes instead of {length}")
        return data

    def _url(self, name: str) -> str:
        return hf_hub_url(self._repo_id, name, revision=self.commit, endpoint=constants.ENDPOINT)

    def _get(self, url: str, params: Mapping[str, str] | None = None) -> httpx.Response:
        if constants.HF_HUB_OFFLINE:
            raise UserError(
                f"{self._repo_id} is on the Hub and HF_HUB_OFFLINE forbids asking it.",
                hint="Unset HF_HUB_OFFLINE, or give the path of a local copy.",
            )
        try:
            answer = self._client.get(url, params=params)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            self._unreachable(error)
        self._check(answer)
        return answer

    def _unreachable(self, error: Exception) -> NoReturn:
        raise UserError(
            f"The Hub at {constants.ENDPOINT} cannot be reached for {self._repo_id} ({type(error).__name__}).",
            hint="Check the network or HF_ENDPOINT, or give the path of a local copy.",
        ) from error

    def _check(self, answer: httpx.Response) -> None:
        if answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            self._refused(answer)
        if answer.status_code == httpx.codes.NOT_FOUND:
            self._missing(answer)
        if answer.is_error:
            raise UserError(
                f"The Hub at {constants.ENDPOINT} answers {answer.status_code} for {self._repo_id}.",
                hint="Try again in a minute, or give the path of a local copy.",
            )

    def _refused(self, answer: httpx.Response) -> NoReturn:
        if answer.headers.get("X-Error-Code") == "RepoNotFound":
            self._missing(answer)
        raise UserError(
            f"{self._repo_id} is gated or private and the Hub refuses this token ({answer.status_code}).",
            hint="Accept the license on the model's page, then set HF_TOKEN to a token of that account.",
        )

    def _missing(self, answer: httpx.Response) -> NoReturn:
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
    return FileStat(size if isinstance(size, int) else 0, digest)


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
