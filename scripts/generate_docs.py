"""Writes docs/reference from the code; with --check compares instead and exits 1 when a page is stale."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from autoadapter import errors
from autoadapter.conformance.page import support_page as conformance_page
from autoadapter.conformance.record import RESULTS, read_results
from autoadapter.engine.kernels import KernelRow, KernelRun, kernels
from autoadapter.engine.schemes import schemes
from autoadapter.findings import explanations
from autoadapter.hardware import Interconnect, gpus

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
COMMANDS = ("run", "analyze", "generate", "optimize", "test", "deploy", "doctor", "conformance", "prepare", "sample")
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
    text = subprocess.run(words, capture_output=True, text=True, check=True, env=env, encoding="utf-8").stdout
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
        f"| `{gpu.name}` | {gpu.memory_gib} | {gpu.compute_capability} | {gpu.sm_count} | {gpu.bandwidth_gb_s:g} "
        f"| {gpu.bf16_tflops:g} | {_rate(gpu.fp8_tflops)} | {_rate(gpu.int8_tflops)} | {_rate(gpu.fp4_tflops)} "
        f"| {_link(gpu.interconnect)} | {gpu.source} |"
        for gpu in gpus()
    )
    head = (
        "| name | memory, GiB | compute capability | SMs | GB/s | 16-bit TFLOP/s | FP8 | INT8 | FP4 | joined by "
        "| source |\n" + "| --- " * 11 + "|"
    )
    return f"{NOTE}# Hardware\n\n`--hardware NAME[:COUNT]`, or `cpu` for this machine.\n\n{head}\n{rows}\n"


def _rate(tflops: float | None) -> str:
    return "–" if tflops is None else f"{tflops:g}"


def _link(link: Interconnect) -> str:
    if link.kind == "none":
        return "–"
    return f"{'NVLink' if link.kind == 'nvlink' else 'PCIe'} {link.gb_s:g} GB/s, up to {link.island}"


def schemes_page() -> str:
    """Rows of engine/schemes.yaml."""
    rows = "\n".join(
        f"| `{row.name}` | {row.title} | {row.backend or '–'} | {', '.join(row.platforms)} "
        f"| {row.min_capability or '–'} | {'yes' if row.needs_calibration else 'no'} | {row.source} |"
        for row in schemes()
    )
    head = "| scheme | what | made by | platforms | from sm | calibrated | source |\n" + "| --- " * 7 + "|"
    return f"{NOTE}# Weight schemes\n\n{head}\n{rows}\n"


def kernels_page() -> str:
    """Rows of engine/kernels.yaml."""
    rows = "\n".join(
        f"| {row.name} | {', '.join(f'`{method}`' for method in row.methods)} | {_runs(row)} | {row.source} |"
        for row in kernels()
    )
    head = "| weights | `quant_method` | runs on | source |\n" + "| --- " * 4 + "|"
    return f"{NOTE}# Kernels of quantized checkpoints\n\n{head}\n{rows}\n"


def _runs(row: KernelRow) -> str:
    """Compute capabilities and kernels, oldest first."""
    runs = sorted(row.runs, key=lambda run: float(run.from_))
    parts = [f"{_capabilities(run)}: {run.kernel}" for run in runs]
    return "; ".join(parts + ([f"until vLLM {row.until}"] if row.until else []))


def _capabilities(run: KernelRun) -> str:
    if run.to is None:
        return f"{run.from_}+"
    return run.from_ if run.to == run.from_ else f"{run.from_} to {run.to}"


def findings_page() -> str:
    """Rows of findings/data, by the first word of the code."""
    intro = (
        f"{NOTE}# Findings\n\nWhat `autoadapter analyze --explain CODE` prints. "
        "Levels: `blocker` will not start or will answer wrongly, `warning` will work worse, `info`.\n"
    )
    topics = dict.fromkeys(row.code.partition(".")[0] for row in explanations())
    return "\n".join([intro, *(_topic(topic) for topic in topics)])


def _topic(topic: str) -> str:
    rows = [row for row in explanations() if row.code.startswith(f"{topic}.")]
    parts = [
        f"**`{row.code}`** ({' or '.join(row.levels)}): {row.title}. {row.meaning} *What to do:* {row.remedy}\n"
        for row in rows
    ]
    return "\n".join([f"## {topic}\n", *parts])


def support_page() -> str:
    """What the last sweep proved, from its `conformance.json` beside the page."""
    found = read_results(REFERENCE / RESULTS)
    return f"{NOTE}{conformance_page(found.rows, found.route, found.versions)}"


PAGES = {
    "cli.md": cli_page,
    "errors.md": errors_page,
    "findings.md": findings_page,
    "hardware.md": hardware_page,
    "schemes.md": schemes_page,
    "kernels.md": kernels_page,
    "support.md": support_page,
}


def main() -> int:
    """Write the pages, or compare them."""
    stale = []
    for name, page in PAGES.items():
        path, text = REFERENCE / name, page()
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
    if stale:
        print(f"Stale: {', '.join(stale)}. Run `make docs`.", file=sys.stderr)
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
