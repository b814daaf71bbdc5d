"""What the commands share: from options to a locked pipeline with progress."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoadapter.cli.output import Out
from autoadapter.errors import AutoadapterError
from autoadapter.progress import Progress

if TYPE_CHECKING:
    from autoadapter.pipeline import Outcome, Pipeline
    from autoadapter.workspace import Workspace

ROUTES = ("auto", "transformers", "generated")


@contextmanager
def pipeline(workspace: "Workspace", out: Out, title: str, **options: Any) -> "Iterator[Pipeline]":
    """A pipeline that holds the workspace's lock and draws progress. Options that are None keep their default."""
    from autoadapter.options import Options
    from autoadapter.pipeline import Pipeline

    given = {name: value for name, value in options.items() if value is not None}
    with workspace.lock(), out.progress(title) as progress:
        yield Pipeline(workspace, Options.model_validate(given), progress)


def planning(**texts: Any) -> dict[str, Any]:
    """Options of `generate` and `run`, checked: strategy, workload and engine arguments."""
    from autoadapter.artifacts import Strategy
    from autoadapter.options import choose, parse_pairs

    said = {name: texts.pop(name) for name in ("input_len", "output_len", "concurrency")}
    return {
        **texts,
        "strategy": choose(Strategy, texts["strategy"], "strategy"),
        "workload": {name: value for name, value in said.items() if value is not None},
        "engine_args": parse_pairs(tuple(texts.get("engine_args") or ())),
    }


def chosen_route(route: str | None) -> str | None:
    """What `--route` says.

    Raises:
        UserError: no such route.
    """
    from autoadapter.errors import UserError

    if route is None or route in ROUTES:
        return route
    raise UserError(f"Unknown route {route!r}.", hint=f"Known: {', '.join(ROUTES)}")


def prefixed(progress: Progress, title: str) -> Progress:
    """A progress that says which stage is at work, from the first moment on."""
    progress(title)

    def show(text: str, fraction: float | None = None) -> None:
        progress(f"{title}: {text}", fraction)

    return show


def internal_error(error: Exception) -> AutoadapterError:
    """What a user is told of a fault in AutoAdapter itself; exit code 1."""
    hint = "Repeat with AUTOADAPTER_DEBUG=1 for the traceback, and report it."
    return AutoadapterError(f"Internal error: {type(error).__name__}: {error}", hint=hint)


def say_if_skipped(
    out: Out, outcome: "Outcome[Any]", words: str = "Nothing changed since the last run: its result stands."
) -> None:
    """A stage that had nothing to do says so."""
    if outcome.skipped:
        out.talk(f"{words} --force repeats it.")


def relative(path: Path) -> str:
    """A path as short as it can be typed from here."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
