"""Writes docs/reference from the code; with --check compares instead and exits 1 when a page is stale."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from autoadapter import errors
from autoadapter.engine.schemes import schemes
from autoadapter.hardware import gpus

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
COMMANDS = ("run", "analyze", "generate", "optimize", "test", "deploy", "doctor", "prepare", "sample")
NOTE = "<!-- Written by scripts/generate_docs.py; edit the code, then `make docs`. -->\n"
CODES = {
    0: "done",
    1: "internal error",
    2: "bad input or usage",
    3: "verification or a rollout gate failed",
    4: "does not fit, or unsupported",
    5: "a needed part is missing",
    130: "interrupted",
}


def cli_page() -> str:
    """`--help` of every command, as it prints at 100 columns."""
    parts = ["# Commands\n", _help(), *(f"## {name}\n\n{_help(name)}" for name in COMMANDS)]
    return NOTE + "\n".join(parts)


def _help(*command: str) -> str:
    env = {**os.environ, "COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}
    words = [sys.executable, "-m", "autoadapter", *command, "--help"]
    text = subprocess.run(words, capture_output=True, text=True, check=True, env=env).stdout
    lines = [line.rstrip() for line in text.strip().splitlines()]
    body = "\n".join(lines).replace("python -m autoadapter", "autoadapter")
    return f"```text\n{body}\n```\n"


def errors_page() -> str:
    """Every error type with its exit code."""
    rows = "\n".join(f"| `{kind.__name__}` | {kind.exit_code} | {_first_line(kind)} |" for kind in _tree())
    codes = "\n".join(f"| {code} | {meaning} |" for code, meaning in CODES.items())
    return (
        f"{NOTE}# Exit codes and errors\n\n| code | meaning |\n| --- | --- |\n{codes}\n\n"
        "With `--json` an error is a document on stdout: `type`, `message`, `hint` and `exit_code` under `error`.\n\n"
        f"| error | exit code | when |\n| --- | --- | --- |\n{rows}\n"
    )


def _first_line(kind: type) -> str:
    return (kind.__doc__ or "").strip().splitlines()[0]


def _tree(root: type[errors.AutoadapterError] = errors.AutoadapterError) -> Iterator[type[errors.AutoadapterError]]:
    yield root
    for child in root.__subclasses__():
        yield from _tree(child)


def hardware_page() -> str:
    """Rows of hardware/gpus.yaml."""
    rows = "\n".join(
        f"| `{gpu.name}` | {gpu.memory_gib} | {gpu.compute_capability} | {gpu.bandwidth_gb_s:g} "
        f"| {gpu.bf16_tflops:g} | {gpu.fp8_tflops or '–'} | {gpu.source} |"
        for gpu in gpus()
    )
    head = (
        "| name | memory, GiB | compute capability | GB/s | BF16 TFLOP/s | FP8 TFLOP/s | source |\n"
        + "| --- " * 7
        + "|"
    )
    return f"{NOTE}# Hardware\n\n`--hardware NAME[:COUNT]`, or `cpu` for this machine.\n\n{head}\n{rows}\n"


def schemes_page() -> str:
    """Rows of engine/schemes.yaml."""
    rows = "\n".join(
        f"| `{row.name}` | {row.title} | {row.backend or '–'} | {', '.join(row.platforms)} "
        f"| {row.min_capability or '–'} | {'yes' if row.needs_calibration else 'no'} | {row.source} |"
        for row in schemes()
    )
    head = "| scheme | what | made by | platforms | from sm | calibrated | source |\n" + "| --- " * 7 + "|"
    return f"{NOTE}# Weight schemes\n\n{head}\n{rows}\n"


PAGES = {"cli.md": cli_page, "errors.md": errors_page, "hardware.md": hardware_page, "schemes.md": schemes_page}


def main() -> int:
    """Write the pages, or compare them."""
    stale = []
    for name, page in PAGES.items():
        path, text = REFERENCE / name, page()
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(name)
    if stale:
        print(f"Stale: {', '.join(stale)}. Run `make docs`.", file=sys.stderr)
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
