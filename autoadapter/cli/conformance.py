"""`autoadapter conformance`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autoadapter.cli.common import relative
from autoadapter.cli.options import JsonOpt
from autoadapter.cli.output import Out

if TYPE_CHECKING:
    from autoadapter.conformance import Row

ArchOpt = Annotated[
    list[str] | None,
    typer.Option("--arch", metavar="NAME", help="This architecture alone. Repeatable.", show_default=False),
]
JobsOpt = Annotated[int, typer.Option(min=1, help="Engines at a time; each takes a core and 3 GB.")]
VllmPythonOpt = Annotated[
    Path | None,
    typer.Option(
        "--vllm-python",
        "--engine-python",
        metavar="PATH",
        help="Python that has vLLM. [default: this one]",
        envvar="AUTOADAPTER_ENGINE_PYTHON",
        show_default=False,
    ),
]
ProvedRouteOpt = Annotated[
    str,
    typer.Option("--route", metavar="NAME", help="auto (the first proven), native, transformers or generated."),
]
OutOpt = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where the results go.")]
ResumeOpt = Annotated[
    bool, typer.Option("--resume/--fresh", help="Keep results of the same code and versions, or prove all again.")
]


def conformance(
    arch: ArchOpt = None,
    jobs: JobsOpt = 1,
    vllm_python: VllmPythonOpt = None,
    route: ProvedRouteOpt = "auto",
    out: OutOpt = Path("conformance"),
    resume: ResumeOpt = True,
    json: JsonOpt = False,
) -> None:
    """Prove architectures of transformers on vLLM, each on a tiny clone with random weights.

    Writes conformance.json and support.md. Exit code 3 when a route answers wrongly.

    For example:

      autoadapter conformance --arch LlamaForCausalLM --route native

      autoadapter conformance --route generated --out sweep
    """
    from autoadapter.conformance import ROUTE_CHOICES, SweepRequest, sweep
    from autoadapter.engine import find_engine
    from autoadapter.errors import UserError

    asked = next((name for name in ROUTE_CHOICES if name == route), None)
    if asked is None:
        raise UserError(f"Unknown route {route!r}.", hint=f"Known: {', '.join(ROUTE_CHOICES)}")
    screen = Out(as_json=json)
    engine = find_engine(vllm_python, needed_for="conformance")
    request = SweepRequest(engine, out.absolute(), tuple(arch or ()), asked, jobs, fresh=not resume)
    with screen.progress("conformance") as progress:
        found = sweep(request, progress=progress)
    if found.kept:
        screen.talk(f"{found.kept} results of the last run stand. --fresh proves them again.")
    if json:
        screen.document(found.document)
    else:
        show_rows(screen, found.rows)
        screen.line(f"Written: {relative(out / 'conformance.json')} and {relative(out / 'support.md')}", style="dim")
    require_right(found.rows, relative(out / "support.md"))


def show_rows(screen: Out, rows: "tuple[Row, ...]") -> None:
    """One line an architecture."""
    lines = [
        (
            row.architecture,
            row.status.value,
            row.route,
            "" if row.max_abs_logprob_diff is None else f"{row.max_abs_logprob_diff:.1e}",
            row.reason,
        )
        for row in rows
    ]
    screen.table(("architecture", "status", "route", "difference", "why"), lines, status_column=1)


def require_right(rows: "tuple[Row, ...]", where: str) -> None:
    """Exit code 3 when something answers wrongly.

    Raises:
        VerificationFailedError: at least one row is wrong.
    """
    from autoadapter.errors import VerificationFailedError

    wrong = [row.architecture for row in rows if row.status == "wrong"]
    if wrong:
        names = ", ".join(wrong[:5]) + (" and others" if len(wrong) > 5 else "")
        raise VerificationFailedError(f"{len(wrong)} answer wrongly: {names}.", hint=f"Open {where}")
