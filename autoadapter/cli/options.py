"""Every option is declared once; commands import it. Nothing heavy is imported here: `--help` stays instant."""

from pathlib import Path
from typing import Annotated

import typer

ModelArg = Annotated[
    str, typer.Argument(metavar="MODEL", help="Folder, .gguf file, or Hub id such as org/name.", show_default=False)
]
WorkspaceOpt = Annotated[
    Path | None,
    typer.Option(
        "-w",
        "--workspace",
        help="Folder of the model's files. [default: autoadapter-workspaces/<model>]",
        envvar="AUTOADAPTER_WORKSPACE",
        show_envvar=True,
        show_default=False,
    ),
]
JsonOpt = Annotated[bool, typer.Option("--json", help="One JSON document on stdout; words go to stderr.")]
RevisionOpt = Annotated[str | None, typer.Option(help="Branch, tag or commit of a Hub model.", show_default=False)]
ForceOpt = Annotated[bool, typer.Option("--force", help="Run the stage although nothing changed.")]
EngineOpt = Annotated[
    Path | None,
    typer.Option(
        "--engine-python",
        metavar="PATH",
        help="Python that has vLLM. [default: this one]",
        envvar="AUTOADAPTER_ENGINE_PYTHON",
        show_default=False,
    ),
]
VllmOpt = Annotated[
    str | None,
    typer.Option("--vllm-version", help="vLLM to plan for. [default: the installed one]", show_default=False),
]
RemoteCodeOpt = Annotated[
    bool, typer.Option("--trust-remote-code", help="Allow code that the checkpoint brings along to run.")
]
RouteOpt = Annotated[
    str | None,
    typer.Option(
        "--route",
        metavar="NAME",
        show_default=False,
        help="auto (the first that serves the model), transformers (vLLM's modeling backend) or generated "
        "(model code that AutoAdapter writes and proves). [default: auto]",
    ),
]
FollowLinksOpt = Annotated[
    bool, typer.Option("--follow-symlinks", help="Let links in the model's folder lead out of it.")
]
StrategyOpt = Annotated[str, typer.Option(help="What matters most: max_perf, balanced or min_mem.", metavar="NAME")]
HardwareOpt = Annotated[
    str, typer.Option(help="Where it will run: cpu, h200, h200:8, a100:4, …", metavar="NAME[:COUNT]")
]
SchemeOpt = Annotated[
    str | None,
    typer.Option(
        help="Weight scheme instead of the strategy's choice: as_is, int8_w8a8, fp8_dynamic, w4a16_gptq.",
        show_default=False,
    ),
]
MaxLenOpt = Annotated[
    int | None, typer.Option("--max-model-len", help="Tokens of context to serve.", show_default=False)
]
ServedNameOpt = Annotated[
    str | None, typer.Option("--served-name", help="Name that clients send as `model`.", show_default=False)
]
EngineArgOpt = Annotated[
    list[str] | None,
    typer.Option(
        "--engine-arg",
        metavar="NAME=VALUE",
        show_default=False,
        help="Any `vllm serve` option; beats every other source. Repeatable.",
    ),
]
RecipesOpt = Annotated[
    Path | None,
    typer.Option(
        "--recipes",
        metavar="FOLDER",
        show_default=False,
        help="Folder of vLLM recipes (YAML); the one of this Hub id gives flags and parsers, never memory.",
    ),
]
InputLenOpt = Annotated[
    int | None, typer.Option("--input-len", min=1, help="Typical prompt, tokens. [default: 1024]", show_default=False)
]
OutputLenOpt = Annotated[
    int | None, typer.Option("--output-len", min=1, help="Typical answer, tokens. [default: 256]", show_default=False)
]
ConcurrencyOpt = Annotated[
    int | None, typer.Option(min=1, help="Requests in flight at once. [default: 16]", show_default=False)
]
CalibrationOpt = Annotated[
    Path | None,
    typer.Option("--calibration-data", help="Text file or folder. [default: a bundled sample]", show_default=False),
]
SamplesOpt = Annotated[int, typer.Option(min=1, help="Calibration samples, where the scheme needs any.")]
DepthOpt = Annotated[str, typer.Option(help="How much evidence: smoke, standard or full.", metavar="NAME")]
OnlyOpt = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="CHECK", help="Run this check alone. Repeatable.", show_default=False),
]
CaseOpt = Annotated[
    list[str] | None,
    typer.Option(
        "--case", metavar="PROMPT", help="A prompt of yours that must be answered. Repeatable.", show_default=False
    ),
]
TargetOpt = Annotated[
    list[str] | None,
    typer.Option(
        "--target", metavar="NAME", show_default=False, help="local, compose or kubernetes. Repeatable. [default: all]"
    ),
]
ImageOpt = Annotated[
    str | None,
    typer.Option(help="Container image, pinned: name@sha256:…", show_default=False),
]
SiteOpt = Annotated[
    list[str] | None,
    typer.Option(
        "--site",
        metavar="NAME=VALUE",
        show_default=False,
        help="A fact of the place: namespace, replicas, weights_pvc, gpu_product, … Repeatable.",
    ),
]
HostOpt = Annotated[str, typer.Option(help="Interface to listen on.")]
PortOpt = Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535)]
