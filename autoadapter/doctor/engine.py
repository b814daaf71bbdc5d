"""vLLM, and the packages that must fit it. The torchvision trap is tried for real: it is imported."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from autoadapter.doctor.remark import Remark, State
from autoadapter.engine.target import INSTALL_LINE, EngineTarget, find_engine
from autoadapter.errors import AutoadapterError, MissingPartError
from autoadapter.optimize.environments import list_environments

IMPORT_SECONDS = 180
COMPANIONS = ("torchvision", "torchaudio", "torchcodec")
"""Packages with operators compiled against one torch build; transformers imports them when they are there."""
FOR_CONVERSION = ("transformers", "gguf", "accelerate")


def remarks(python: Path | None) -> Iterator[Remark]:
    """Which engine there is, whether its parts fit, which extras are missing."""
    try:
        target = find_engine(python, needed_for="`optimize`, `test` and `deploy --up`")
    except MissingPartError as error:
        named = python is not None
        state = State.PROBLEM if named else State.WARNING
        fix = f"{python} -m pip install vllm" if named else INSTALL_LINE
        yield Remark(name="vllm", state=state, message=str(error), fix=fix)
        return
    except AutoadapterError as error:
        yield Remark(name="vllm", state=State.PROBLEM, message=str(error), fix=error.hint)
        return
    yield Remark(name="vllm", state=State.OK, message=_describe(target))
    yield from _companions(target)
    yield _conversion(target)
    yield from _environments()


def _describe(target: EngineTarget) -> str:
    torch = target.packages.get("torch", "no torch")
    return f"vLLM {target.version} for {target.platform} ({target.distribution}), torch {torch}, at {target.python}"


def _companions(target: EngineTarget) -> Iterator[Remark]:
    for name in COMPANIONS:
        if name in target.packages:
            yield judge_companion(name, target, _try_import(target.python, name))


def judge_companion(name: str, target: EngineTarget, failure: str | None) -> Remark:
    """Whether a package with compiled operators fits the torch beside it.

    Args:
        name: the package.
        target: where it is installed.
        failure: last line of the error when it was imported, None when the import worked.
    """
    version, torch = target.packages[name], target.packages.get("torch", "?")
    if failure is None:
        return Remark(name=name, state=State.OK, message=f"{name} {version} fits torch {torch}")
    trap = " transformers imports it and fails with it." if "::nms" in failure or name == "torchvision" else ""
    return Remark(
        name=name,
        state=State.PROBLEM,
        message=f"{name} {version} does not fit torch {torch}: {failure}.{trap}",
        fix=f"{target.python} -m pip uninstall -y {' '.join(part for part in COMPANIONS if part in target.packages)}",
    )


def _try_import(python: Path, name: str) -> str | None:
    command = [str(python), "-c", f"import {name}"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=IMPORT_SECONDS, encoding="utf-8"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    last = (done.stderr.strip().splitlines() or ["ended without a word"])[-1]
    return re.sub(r"^\w+(Error|Exception): ", "", last)


def _conversion(target: EngineTarget) -> Remark:
    missing = [name for name in FOR_CONVERSION if name not in target.packages]
    if missing:
        return Remark(
            name="convert",
            state=State.WARNING,
            message=f"{', '.join(missing)} missing: GGUF and .bin checkpoints cannot be converted.",
            fix=f"{target.python} -m pip install {' '.join(missing)}",
        )
    versions = ", ".join(f"{name} {target.packages[name]}" for name in FOR_CONVERSION)
    return Remark(name="convert", state=State.OK, message=versions)


def _environments() -> Iterator[Remark]:
    for environment in list_environments():
        state = State.OK if environment.ready else State.NOTE
        what = "ready" if environment.ready else "made on first use, or by `autoadapter prepare`"
        yield Remark(name=f"env {environment.name}", state=state, message=f"{what}: {environment.source}")
