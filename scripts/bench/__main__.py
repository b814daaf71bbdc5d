"""Times what a user waits for most often, beside what other tools take for the same question.

Figures are medians, ratios are between the best runs: machines differ, ratios travel. `--json` prints one document;
the exit status is 3 when the best run breaks a limit.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from hub import serving
from layouts import LAYOUTS, write
from measure import Figure, NotRun, measure
from peers import PEERS

LIMITS = {"135M": (1.0, 120.0), "8B": (1.0, 120.0), "671B": (2.0, None)}
"""Layout → seconds and megabytes that analyzing its folder may take."""
VLLM = "0.32.0"
BASE = "python -c pass"


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    what: str
    figure: Figure | NotRun
    limit: tuple[float, float | None] | None = None

    @property
    def broken(self) -> bool:
        """Whether it took more than it may."""
        if self.limit is None or isinstance(self.figure, NotRun):
            return self.limit is not None
        seconds, megabytes = self.limit
        return self.figure.best_seconds > seconds or (megabytes is not None and self.figure.peak_mb > megabytes)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument("--runs", type=int, default=7, help="measured runs of each command (default 7)")
    parser.add_argument("--no-peers", action="store_true", help="leave the other tools out; nothing is installed")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="autoadapter-bench-") as scratch:
        rows = []
        for row in _rows(Path(scratch), chosen.runs, peers=not chosen.no_peers):
            rows.append(row)
            print(_line(row, rows[0]), file=sys.stderr if chosen.json else sys.stdout, flush=True)
    if chosen.json:
        print(json.dumps([_document(row, rows[0]) for row in rows], indent=2))
    sys.exit(3 if any(row.broken for row in rows) else 0)


def _rows(scratch: Path, runs: int, *, peers: bool) -> Iterator[Row]:
    environment = {
        "PYTHONPYCACHEPREFIX": str(scratch / "bytecode"),  # as installed: compiled once, wherever the code lies
        "PYTHONDONTWRITEBYTECODE": "",
    }
    tool = [sys.executable, "-m", "autoadapter"]
    yield Row(BASE, measure([sys.executable, "-c", "pass"], environment, runs))
    yield Row("autoadapter --help", measure([*tool, "--help"], environment, runs))
    folders = {layout.name: write(layout, scratch / layout.name) for layout in LAYOUTS}
    rest = ["--force", "--json", "--vllm-version", VLLM]
    for name, folder in folders.items():
        command = [*tool, "analyze", str(folder), "-w", f"{folder}-workspace", *rest]
        yield Row(f"autoadapter analyze, {name} folder", measure(command, environment, runs), LIMITS[name])
    repositories = {f"bench/{name}": folder for name, folder in folders.items()}
    with serving(repositories) as endpoint:
        online = {**environment, "HF_ENDPOINT": endpoint, "HF_HUB_OFFLINE": "", "HF_HOME": str(scratch / "hf")}
        for name in folders:
            command = [*tool, "analyze", f"bench/{name}", "-w", f"{scratch}/{name}-online", *rest]
            yield Row(f"autoadapter analyze, {name} Hub id", measure(command, online, runs))
            yield from _peers(name, online, min(runs, 3)) if peers else ()


def _peers(name: str, environment: dict[str, str], runs: int) -> Iterator[Row]:
    for peer in PEERS:
        python = peer.interpreter()
        figure = python if isinstance(python, NotRun) else None
        yield Row(
            f"{peer.name}, {name} Hub id",
            figure or measure(peer.command(Path(str(python)), f"bench/{name}"), environment, runs),
        )


def _line(row: Row, base: Row) -> str:
    if isinstance(row.figure, NotRun):
        return f"{row.what:44} not_run: {row.figure.reason}"
    figure = row.figure
    limit = "" if row.limit is None else "   LIMIT BROKEN" if row.broken else "   within its limit"
    ratio = _ratio(row, base)
    times = f"{ratio:7.1f} x python" if ratio else " " * 16
    took = f"{figure.seconds * 1000:8.0f} ms (best {figure.best_seconds * 1000:6.0f})"
    return f"{row.what:44} {took} {times} {figure.peak_mb:7.0f} MB{limit}"


def _ratio(row: Row, base: Row) -> float | None:
    if isinstance(row.figure, NotRun) or isinstance(base.figure, NotRun):
        return None
    return row.figure.best_seconds / base.figure.best_seconds


def _document(row: Row, base: Row) -> dict[str, object]:
    if isinstance(row.figure, NotRun):
        return {"what": row.what, "status": "not_run", "reason": row.figure.reason}
    limit = {"limit_seconds": row.limit[0], "limit_mb": row.limit[1], "within": not row.broken} if row.limit else {}
    return {"what": row.what, "status": "ran", **asdict(row.figure), "ratio": _ratio(row, base), **limit}


if __name__ == "__main__":
    main()
