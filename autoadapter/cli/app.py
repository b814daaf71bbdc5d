"""The table of contents, and the one place where an error becomes words and an exit code."""

import os
import signal
import sys
from types import FrameType
from typing import Any

import typer

from autoadapter import __version__
from autoadapter.cli import analyze, conformance, deploy, doctor, generate, optimize, prepare, run, sample, test
from autoadapter.cli.common import internal_error
from autoadapter.cli.hints import completed, usage_error
from autoadapter.cli.output import Out
from autoadapter.cli.streams import leave, prepare_streams
from autoadapter.errors import AutoadapterError, InterruptedRunError, UserError

HELP = """From a Hugging Face model to a proven vLLM deployment bundle.

The five stages, each starting from the files of the one before it:

  analyze → generate → optimize → test → deploy

`run` does all five and resumes where it stopped. `doctor` tells what this machine lacks.

Exit codes: 0 done; 1 internal error; 2 bad input; 3 verification failed; 4 unsupported or does not fit; 5 a needed part is missing; 130 interrupted.
"""  # noqa: E501


_UsageError: Any = typer.BadParameter.__base__
"""What typer raises for a wrong option: the base of its one public usage error."""


class _Group(typer.core.TyperGroup):
    """Lets Ctrl-C through as one of our errors; typer would turn it into exit code 1."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise InterruptedRunError(
                "Interrupted. What was finished is kept.", hint="Repeat the command: it resumes."
            ) from None


app = typer.Typer(
    cls=_Group,
    help=HELP,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)

app.command("run", short_help="All five stages; resumes where it stopped.")(run.run)
app.command("analyze", short_help="What is this model, and will it run?")(analyze.analyze)
app.command("generate", short_help="Plan the deployment, render the adapter.")(generate.generate)
app.command("optimize", short_help="Convert and quantize; measure the loss.")(optimize.optimize)
app.command("test", short_help="Prove it on a real engine.")(test.test)
app.command("deploy", short_help="Write the bundle; run it here with --up.")(deploy.deploy)
app.command("doctor", short_help="What does this machine lack?")(doctor.doctor)
app.command("conformance", short_help="Which architectures are proven?")(conformance.conformance)
app.command("prepare", short_help="Create the quantizers' environments now.")(prepare.prepare)
app.command("sample", short_help="Fetch the sample model.")(sample.sample)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"autoadapter {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    pass


def _stop_like_ctrl_c(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _commands() -> list[str]:
    return [str(command.name) for command in app.registered_commands]


def main() -> None:
    """Entry point of the `autoadapter` command."""
    prepare_streams()
    try:
        _main()
    except SystemExit as end:
        leave(end.code if isinstance(end.code, int) else 0)
    except AutoadapterError as error:
        leave(error)


def _main() -> None:
    signal.signal(signal.SIGTERM, _stop_like_ctrl_c)
    as_json = "--json" in sys.argv
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except _UsageError as error:
        if len(sys.argv) == 1:
            error.show()
        else:
            Out(as_json=as_json).error(usage_error(error.format_message(), sys.argv[1:], _commands()))
        sys.exit(UserError.exit_code)
    except AutoadapterError as error:
        Out(as_json=as_json).error(completed(error, sys.argv[1:], _commands()))
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(1)
    except Exception as error:
        if os.environ.get("AUTOADAPTER_DEBUG"):
            raise
        Out(as_json=as_json).error(internal_error(error))
        sys.exit(1)
