"""`autoadapter doctor`."""

import typer

from autoadapter.cli.options import EngineOpt, JsonOpt
from autoadapter.cli.output import Out


def doctor(engine_python: EngineOpt = None, json: JsonOpt = False) -> None:
    """What does this machine lack? Python, vLLM and what must fit it, CUDA, memory, disk, extras.

    Exit code 5 when something will not work. Each remark ends in the line that mends it.
    """
    from autoadapter.doctor import examine

    out = Out(as_json=json)
    with out.progress("doctor") as progress:
        progress("importing what must fit torch")
        report = examine(engine_python)
    if json:
        out.document({**report.model_dump(mode="json"), "healthy": report.healthy})
    else:
        out.table(
            ("what", "state", "seen"),
            [(row.name, row.state.value, row.message) for row in report.remarks],
            status_column=1,
        )
        for row in report.remarks:
            if row.fix:
                out.line(f"{row.name}: {row.fix}")
    if not report.healthy:
        raise typer.Exit(5)
