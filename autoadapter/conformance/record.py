"""What a sweep found, one row an architecture, kept as it goes."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

import autoadapter
from autoadapter.artifacts.base import Frozen
from autoadapter.freshness import file_digest
from autoadapter.rendering import templates_dir, write_atomically

Route = Literal["native", "transformers", "generated"]
Stage = Literal["", "clone", "fit", "render", "prove"]
ROOMS = (
    "artifacts/decoder",
    "probe",
    "generate/plugin",
    "engine/registry",
    "engine/workers",
    "verify/proof",
    "verify/workers",
    "conformance",
)
JOURNAL, RESULTS, PAGE = "results.jsonl", "conformance.json", "support.md"


class Status(StrEnum):
    """What is known of an architecture."""

    PROVEN = "proven"
    WRONG = "wrong"
    """Something answered, and wrongly."""
    REFUSED = "refused"
    """No route gets to an answer; the reason names what stops it."""
    NOT_RUN = "not_run"
    """This machine has no kernel for it, or no such route exists: nothing is claimed."""


class Attempt(Frozen):
    """One route of one architecture."""

    route: Route
    status: Status
    reason: str = ""
    stage: Stage = ""
    """Where it stopped, empty when proven."""
    max_abs_logprob_diff: float | None = None
    opaque: bool = False
    """The generated code carries over blocks that no candidate explains."""
    replay_error: float | None = None
    answered_by: str = ""
    spread: float | None = None
    seconds: float = 0.0


class Row(Frozen):
    """One architecture: the route that stands for it, and all that were tried."""

    architecture: str
    route: Route
    status: Status
    max_abs_logprob_diff: float | None = None
    reason: str = ""
    opaque: bool = False
    stage: Stage = ""
    seconds: float = 0.0
    attempts: tuple[Attempt, ...] = ()

    @classmethod
    def of(cls, architecture: str, attempts: tuple[Attempt, ...], seconds: float) -> "Row":
        """The first proven attempt stands for the architecture; else a wrong one; else the last."""
        order = {Status.PROVEN: 0, Status.WRONG: 1}
        best = min(reversed(attempts), key=lambda attempt: order.get(attempt.status, 2))
        first = next((attempt for attempt in attempts if attempt.status is Status.PROVEN), best)
        shared = first.model_dump(include={"route", "status", "max_abs_logprob_diff", "reason", "opaque", "stage"})
        return cls(architecture=architecture, seconds=round(seconds, 2), attempts=attempts, **shared)


def sweep_key(route: str, versions: Mapping[str, str]) -> str:
    """Digest of the code and the versions that a result depends on: while it stays, the result stands."""
    package = Path(autoadapter.__file__).parent
    parts = {room: file_digest_of_sources(package / room) for room in ROOMS}
    parts["templates"] = file_digest(templates_dir() / "plugin") or ""
    document = {"tool": autoadapter.__version__, "route": route, "versions": dict(versions), "parts": parts}
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def file_digest_of_sources(folder: Path) -> str:
    """SHA-256 over the sources below a folder; compiled files do not count."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".py", ".yaml", ".json") and path.is_file():
            total.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return total.hexdigest()


class Journal:
    """Rows of a sweep, each appended as soon as it is known."""

    def __init__(self, folder: Path, key: str) -> None:
        """`key`: rows under another one are of an older sweep and do not count."""
        self.path, self.key = folder / JOURNAL, key

    def rows(self) -> dict[str, Row]:
        """What was found so far under this key, by architecture; half a line of a crash is left out."""
        found: dict[str, Row] = {}
        text = self.path.read_text(encoding="utf-8") if self.path.is_file() else ""
        for line in text.splitlines():
            try:
                document = json.loads(line)
                if document["key"] == self.key:
                    row = Row.model_validate(document["row"])
                    found[row.architecture] = row
            except (ValueError, KeyError, TypeError, ValidationError):
                continue
        return found

    def add(self, row: Row) -> None:
        """Append a row."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as sink:
            sink.write(json.dumps({"key": self.key, "row": row.model_dump(mode="json")}) + "\n")

    def clear(self) -> None:
        """Forget everything."""
        self.path.unlink(missing_ok=True)


def results_document(rows: Iterable[Row], route: str, versions: Mapping[str, str]) -> dict[str, object]:
    """The JSON document: results, what they were found on, and totals."""
    listed = sorted(rows, key=lambda row: row.architecture)
    totals = {status.value: sum(row.status is status for row in listed) for status in Status}
    return {
        "schema_version": 1,
        "tool_version": autoadapter.__version__,
        "route": route,
        "engine": dict(versions),
        "totals": {"architectures": len(listed), **totals},
        "results": [row.model_dump(mode="json") for row in listed],
    }


@dataclass(frozen=True)
class Found:
    """What a `conformance.json` says."""

    rows: list[Row]
    route: str
    versions: dict[str, str]


def read_results(path: Path) -> Found:
    """Read what `write_results` wrote.

    Raises:
        OSError: there is no such file.
        ValueError: it is not such a document.
    """
    document = json.loads(path.read_text(encoding="utf-8"))
    return Found([Row.model_validate(row) for row in document["results"]], document["route"], document["engine"])


def write_results(folder: Path, document: Mapping[str, object], page: str) -> None:
    """Write both files of a sweep.

    Raises:
        StorageError: the folder may not be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / RESULTS, json.dumps(document, indent=2) + "\n")
    write_atomically(folder / PAGE, page)
