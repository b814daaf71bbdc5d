"""`autoadapter prepare`."""

from typing import Annotated

import typer

from autoadapter.cli.options import JsonOpt
from autoadapter.cli.output import Out

NamesArg = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME]...", help="Environments; all when none is named.")
]


def prepare(names: NamesArg = None, json: JsonOpt = False) -> None:
    """Create the quantizers' own environments now instead of on first use.

    A quantizer's pins clash with vLLM's, so each runs in an environment that is made once and kept
    in AUTOADAPTER_HOME (default ~/.cache/autoadapter).
    """
    from autoadapter.optimize.environments import environment, list_environments

    out = Out(as_json=json)
    ready: dict[str, str] = {}
    with out.progress("prepare") as progress:
        for name in names or [known.name for known in list_environments()]:
            ready[name] = str(environment(name, progress))
    if json:
        out.document(ready)
    else:
        out.facts(list(ready.items()))
