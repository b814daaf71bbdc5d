"""All architectures, one after another or several at a time, with a result kept as soon as it is there."""

import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Literal

from autoadapter.conformance.attempts import REFERENCE_MODULES, Refusal, attempt, make_clone, refused
from autoadapter.conformance.page import support_page
from autoadapter.conformance.record import (
    Attempt,
    Journal,
    Route,
    Row,
    Status,
    results_document,
    sweep_key,
    write_results,
)
from autoadapter.engine.target import EngineTarget
from autoadapter.errors import UserError, WorkerError
from autoadapter.progress import Progress, silent
from autoadapter.verify.proof import Servers

RouteChoice = Literal["auto", "native", "transformers", "generated"]
ROUTE_CHOICES: tuple[RouteChoice, ...] = ("auto", "native", "transformers", "generated")
ORDER: tuple[Route, ...] = ("native", "transformers", "generated")


@dataclass(frozen=True)
class SweepRequest:
    """What to prove, on what, and where it is written."""

    engine: EngineTarget
    folder: Path
    architectures: tuple[str, ...] = ()
    """Empty: every causal language model of the installed transformers."""
    route: RouteChoice = "auto"
    """`auto`: native, then transformers, then generated, until one is proven."""
    jobs: int = 1
    fresh: bool = False
    """Forget earlier results; else those of the same code and versions stand."""


@dataclass(frozen=True)
class SweepResult:
    """What `conformance.json` says."""

    rows: tuple[Row, ...]
    document: dict[str, Any]
    kept: int
    """Rows of an earlier run that still stand."""


def sweep(request: SweepRequest, *, progress: Progress = silent) -> SweepResult:
    """Prove every architecture asked for and write `conformance.json` and `support.md`.

    Raises:
        WorkerError: the interpreter does not import vLLM or transformers.
        UserError: no such architecture.
        StorageError: the folder may not be written.
    """
    return _Sweep(request, progress).run()


class _Sweep:
    """The state of one sweep: its journal and its servers, one pair a job."""

    def __init__(self, request: SweepRequest, progress: Progress) -> None:
        self.request, self.progress = request, progress
        self.servers = [
            Servers(request.engine, request.folder / "logs" / str(job), reference_modules=REFERENCE_MODULES)
            for job in range(request.jobs)
        ]
        self.idle: SimpleQueue[Servers] = SimpleQueue()
        for servers in self.servers:
            self.idle.put(servers)
        self.versions = self.servers[0].versions
        self.journal = Journal(request.folder, sweep_key(request.route, self.versions))
        self.lock = threading.Lock()
        self.stopped = threading.Event()
        self.began = time.monotonic()

    def run(self) -> SweepResult:
        try:
            return self._run()
        finally:
            self.stopped.set()
            for servers in self.servers:
                servers.close()

    def _run(self) -> SweepResult:
        if self.request.fresh:
            self.journal.clear()
        self.progress("importing transformers")
        wanted = chosen(self.request.architectures, self._known())
        rows = {name: row for name, row in self.journal.rows().items() if name in wanted}
        kept, left = len(rows), [name for name in wanted if name not in rows]
        native = self._native() if left else frozenset()
        total = len(wanted)

        def work(name: str) -> None:
            row = self._examine(name, native)
            if self.stopped.is_set():  # the servers were taken away from it
                return
            with self.lock:
                rows[name] = row
                self.journal.add(row)
                self._write(rows)
                self._tell(rows, kept, total, row)

        self._write(rows)
        _each(left, work, self.request.jobs)
        return SweepResult(tuple(rows[name] for name in wanted), self._write(rows), kept)

    def _known(self) -> list[str]:
        told = self.servers[0].reference("architectures", {}, log="architectures.log")
        if told.result is None:
            raise WorkerError("transformers did not list its architectures.", cause=str(told.error), log=told.log)
        return list(told.result["architectures"])

    def _native(self) -> frozenset[str]:
        self.progress("importing vLLM")
        told = self.servers[0].engine("served", {}, log="served.log")
        if told.result is None:
            raise WorkerError("vLLM did not list its architectures.", cause=str(told.error), log=told.log)
        return frozenset(told.result["native"])

    def _examine(self, name: str, native: frozenset[str]) -> Row:
        servers, began = self.idle.get(), time.monotonic()
        try:
            with tempfile.TemporaryDirectory(dir=servers.scratch) as scratch:
                attempts = self._attempts(servers, name, name in native, Path(scratch) / name)
        finally:
            self.idle.put(servers)
        return Row.of(name, attempts, time.monotonic() - began)

    def _attempts(self, servers: Servers, name: str, native: bool, folder: Path) -> tuple[Attempt, ...]:
        routes = [route for route in ORDER if self.request.route in ("auto", route)]
        clone = make_clone(servers, name, folder)
        if isinstance(clone, Refusal):
            return (refused(routes[-1], "clone", clone.reason),)
        tried: list[Attempt] = []
        for route in routes:
            if route == "native" and not native:
                reason = "vLLM has no model code of its own for it"
                tried.append(Attempt(route=route, status=Status.NOT_RUN, stage="prove", reason=reason))
                continue
            tried.append(attempt(servers, clone, route, name, self.request.folder / "plugins"))
            if tried[-1].status is Status.PROVEN:
                break
        return tuple(tried)

    def _write(self, rows: dict[str, Row]) -> dict[str, Any]:
        document = results_document(rows.values(), self.request.route, self.versions)
        write_results(
            self.request.folder, document, support_page(list(rows.values()), self.request.route, self.versions)
        )
        return document

    def _tell(self, rows: dict[str, Row], kept: int, total: int, row: Row) -> None:
        done, spent = len(rows) - kept, time.monotonic() - self.began
        minutes = spent / done * (total - len(rows)) / 60
        counts = ", ".join(f"{sum(one.status is status for one in rows.values())} {status}" for status in Status)
        text = f"{len(rows)} of {total} ({counts}), {minutes:.0f} min left: {row.architecture} {row.status}"
        self.progress(text, len(rows) / total)


def chosen(names: Sequence[str], known: Sequence[str]) -> list[str]:
    """The architectures to prove, in order.

    Raises:
        UserError: transformers has no such causal language model.
    """
    for name in names:
        if name not in known:
            close = [other for other in known if other.lower().startswith(name.lower()[:5])]
            hint = f"Near it: {', '.join(close[:5])}" if close else "Names are those of `architectures` in config.json."
            raise UserError(f"The installed transformers has no causal language model {name!r}.", hint=hint)
    return list(dict.fromkeys(names)) or sorted(known)


def _each(names: Sequence[str], work: Callable[[str], None], jobs: int) -> None:
    if jobs == 1:
        for name in names:
            work(name)
        return
    pool = ThreadPoolExecutor(jobs)
    try:
        for done in [pool.submit(work, name) for name in names]:
            done.result()
    finally:
        pool.shutdown(cancel_futures=True)  # after an error or Ctrl-C nothing new is begun
