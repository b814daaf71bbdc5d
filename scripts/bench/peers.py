"""The tools to compare with, each in an environment of its own below AUTOADAPTER_HOME."""

import importlib.util
import os
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from measure import NotRun

INSTALL_SECONDS = 900
MOST_TAIL = 300
HF_MEM = "hf-mem==0.5.6"
ACCELERATE = ("accelerate>=1.0", "transformers>=5.0", "torch>=2.8")
REDIRECT = """
import os, sys
from urllib.parse import urlsplit
import httpx2
endpoint, build = urlsplit(os.environ["HF_ENDPOINT"]), httpx2.AsyncClient.build_request
def nearby(self, method, url, **rest):
    near = httpx2.URL(url).copy_with(scheme="http", host=endpoint.hostname, port=endpoint.port)
    return build(self, method, near, **rest)
httpx2.AsyncClient.build_request = nearby
from hf_mem.cli import main
sys.argv[0] = "hf-mem"
main()
"""
"""hf-mem asks the public Hub whatever HF_ENDPOINT says; this sends the same requests to the local one."""


@dataclass(frozen=True)
class Peer:
    """A tool, how it is installed, and how it is asked about a repository."""

    name: str
    packages: tuple[str, ...]
    command: Callable[[Path, str], list[str]]
    """Its interpreter and a repository's id → the command."""
    modules: tuple[str, ...] = ()
    """Where this interpreter has them all, it is used instead of a new environment."""

    def interpreter(self) -> Path | NotRun:
        """A Python that has the tool; installed on first use."""
        if self.modules and all(importlib.util.find_spec(module) for module in self.modules):
            return Path(sys.executable)
        home = Path(os.environ.get("AUTOADAPTER_HOME") or Path.home() / ".cache" / "autoadapter").expanduser()
        folder = home / "bench" / self.name
        python = folder / "bin" / "python"
        if (folder / ".installed").exists():
            return python
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet", "install", *self.packages]
        try:
            done = subprocess.run(pip, capture_output=True, text=True, timeout=INSTALL_SECONDS, encoding="utf-8")
        except subprocess.TimeoutExpired:
            return NotRun(f"not installed within {INSTALL_SECONDS} seconds")
        if done.returncode:
            return NotRun(f"cannot be installed: {(done.stderr.strip().splitlines() or ['?'])[-1][:MOST_TAIL]}")
        (folder / ".installed").touch()
        return python


def _hf_mem(python: Path, repo: str) -> list[str]:
    return [str(python), "-c", REDIRECT, "--model-id", repo, "--experimental", "--json-output"]


def _accelerate(python: Path, repo: str) -> list[str]:
    return [
        str(python),
        "-m",
        "accelerate.commands.accelerate_cli",
        "estimate-memory",
        repo,
        "--library_name",
        "transformers",
    ]


PEERS = (
    Peer("hf-mem", (HF_MEM,), _hf_mem),
    Peer("accelerate estimate-memory", ACCELERATE, _accelerate, ("accelerate", "transformers", "torch")),
)
