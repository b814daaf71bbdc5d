"""Probing as the other rooms call it: a subprocess with torch, its spec kept for as long as its inputs are the same."""

import hashlib
import json
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from autoadapter import __version__
from autoadapter.artifacts.decoder import DecoderSpec
from autoadapter.engine import run_worker
from autoadapter.engine.child import run_lines
from autoadapter.errors import UnsupportedModelError
from autoadapter.progress import Progress, silent
from autoadapter.rendering import write_atomically

WORKER = Path(__file__).parent / "workers" / "fit_decoder_main.py"
RECORD = "probe.json"
FAILURE = "failure.json"
CAPTURE = "capture.safetensors"
ASK_VERSIONS = """
import importlib.metadata as m
for name in ("torch", "transformers"):
    try: print(name, m.version(name))
    except m.PackageNotFoundError: print(name, "none")
"""
NEAREST = 2


def probe(
    code: Path | None, config: Mapping[str, Any], *, interpreter: Path, out: Path, progress: Progress = silent
) -> DecoderSpec:
    """What an architecture computes, fitted to a tiny clone of it.

    Writes `clone/`, `spec.json` and a record of the run to `out`; where no spec explains the model, `failure.json` (the
    block and the best candidates) and `capture.safetensors` (what the block read, returned and holds).

    Args:
        code: folder with the checkpoint's own code, only where that may run; it runs without network.
        config: the checkpoint's config.json.
        interpreter: has torch and transformers.
        out: folder to write to.
        progress: told where the work is.

    Raises:
        UnsupportedModelError: transformers cannot build it, or a block is not explained.
        WorkerError: the reference ended with an error.
    """
    remote = code if code is not None and code.is_dir() and config.get("auto_map") else None
    inputs = {"config": _digest(config), "code": _code_digest(remote), "tool": _tool(), **_versions(interpreter)}
    known = _kept(out, inputs)
    if known is not None:
        return known
    _clear(out)
    request = {
        "config": dict(config),
        "code": str(remote) if remote else None,
        "clone": str(out / "clone"),
        "spec": str(out / DecoderSpec.file_name),
        "capture": str(out / CAPTURE),
    }
    env = {"HF_MODULES_CACHE": str(out / "modules")}
    outcome = run_worker(interpreter, WORKER, request, log=out / "probe.log", progress=progress, env=env)
    result = outcome.result
    record = {"inputs": inputs, "network": result["network"], "clone": result.get("clone"), "seconds": outcome.seconds}
    write_atomically(out / RECORD, json.dumps(record, indent=2) + "\n")
    if not result.get("spec"):
        raise _refused(result, config, out, trusted=code is not None)
    return DecoderSpec.read(out / DecoderSpec.file_name)


def _refused(result: dict[str, Any], config: Mapping[str, Any], out: Path, *, trusted: bool) -> UnsupportedModelError:
    failure = {key: result[key] for key in ("block", "why", "candidates")}
    write_atomically(out / FAILURE, json.dumps(failure, indent=2) + "\n")
    if config.get("auto_map") and not trusted:
        return UnsupportedModelError(
            f"The model's own code was not run, and without it no clone can be made: {result['why']}.",
            hint="If you trust that code: repeat the command with --trust-remote-code",
        )
    if result["refused"] == "clone":
        why = f"No tiny clone of it can be fitted: {result['why']}."
        return UnsupportedModelError(why, hint="Serve it by another route: --route transformers")
    nearest = " and ".join(f"{name} (error {error:.2g})" for name, error in result["candidates"][:NEAREST])
    tried = f" Nearest: {nearest}." if nearest else ""
    return UnsupportedModelError(
        f"No candidate explains {result['block']}: {result['why']}.{tried}",
        hint=f"Serve it by another route: --route transformers. What the block reads and returns: {out / CAPTURE}",
    )


def _kept(out: Path, inputs: dict[str, str]) -> DecoderSpec | None:
    """The spec of an earlier run of the same inputs."""
    record, spec = out / RECORD, out / DecoderSpec.file_name
    if not (record.is_file() and spec.is_file() and (out / "clone").is_dir()):
        return None
    if json.loads(record.read_text(encoding="utf-8")).get("inputs") != inputs:
        return None
    return DecoderSpec.read(spec)


def _clear(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(out / "clone", ignore_errors=True)
    for name in (RECORD, FAILURE, CAPTURE, DecoderSpec.file_name):
        (out / name).unlink(missing_ok=True)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def _code_digest(code: Path | None) -> str:
    files = sorted(code.rglob("*.py")) if code else []
    return _digest([(file.name, file.read_text(encoding="utf-8", errors="replace")) for file in files])


@cache
def _tool() -> str:
    """Of this room's own files: another candidate makes another spec within one version."""
    total = hashlib.sha256(__version__.encode())
    for path in sorted(Path(__file__).parent.rglob("*")):
        if path.suffix in (".py", ".yaml"):
            total.update(path.read_bytes())
    return total.hexdigest()


def _versions(interpreter: Path) -> dict[str, str]:
    lines: list[str] = []
    run_lines([str(interpreter), "-c", ASK_VERSIONS], lines.append)
    return dict(line.split(" ", 1) for line in lines if line.count(" ") == 1)
