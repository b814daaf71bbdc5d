"""What a check may use: the request, the servers, and numbers from transformers."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from autoadapter.artifacts import CheckResult
from autoadapter.engine import run_worker
from autoadapter.engine.client import EngineClient
from autoadapter.progress import Progress
from autoadapter.verify.engines import Engines, Role
from autoadapter.verify.request import VerifyRequest
from autoadapter.verify.scale import SCALES, Scale

WORKERS = Path(__file__).with_name("workers")
In = TypeVar("In")
Out = TypeVar("Out")


class Check(Protocol):
    """One kind of evidence; one file under `checks/`."""

    name: str
    title: str

    @property
    def needs(self) -> tuple[Role, ...]:
        """Checkpoints that must be there."""

    def run(self, context: "CheckContext") -> CheckResult:
        """Gather the evidence and judge it.

        Raises:
            EngineError: the server refused, died or did not start: the stage records a failure.
            WorkerError: transformers could not give reference numbers: the stage records `not_run`.
        """


@dataclass
class CheckContext:
    """Handed to every check."""

    request: VerifyRequest
    engines: Engines
    progress: Progress
    texts: dict[str, list[int]] = field(default_factory=dict)
    """Held-out text by name, as the served model's token ids; filled on first use."""

    @property
    def scale(self) -> Scale:
        """Sizes for the asked depth."""
        return SCALES[self.request.depth]

    def client(self, role: Role) -> EngineClient:
        """A client of the role's server, started if need be."""
        return self.engines.client(role)

    def worker(self, script: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Run `workers/SCRIPT.py` in the engine's interpreter, where transformers is, and return its result.

        The worker is told besides whether the user accepts code of the checkpoint (`trust_remote_code`).
        """
        log = self.request.logs / f"verify-{script}.log"
        python = self.request.engine.python
        asked = {**request, "trust_remote_code": self.request.trust_remote_code}
        return run_worker(python, WORKERS / f"{script}.py", asked, log=log, progress=self.progress).result


def concurrently(work: Callable[[In], Out], items: Iterable[In]) -> list[Out]:
    """`work` on all items at once, one thread each, results in order. The first error is raised."""
    waiting = list(items)
    with ThreadPoolExecutor(max_workers=max(len(waiting), 1)) as pool:
        return list(pool.map(work, waiting))
