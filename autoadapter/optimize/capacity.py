"""Is there room? Asked before the work, so that nothing fails after an hour."""

import shutil
from pathlib import Path

from autoadapter.artifacts import ModelProfile
from autoadapter.errors import DoesNotFitError, StorageError
from autoadapter.hardware import usable_memory_bytes

GB = 1e9
DISK_MARGIN_BYTES = 200_000_000
"""Tokenizer, logs, and a little air."""
LIBRARIES_BYTES = 1_250_000_000
"""torch, transformers and llm-compressor without a model."""
BYTES_PER_PARAMETER = 5
"""Two 16-bit copies while quantizing; an fp32 copy and its packed source while measuring perplexity.

Both constants bound what was measured with 134.5 million parameters: converting 1.05 GB, quantizing 0.89 GB,
perplexity 1.75 GB.
"""


def require_disk(folder: Path, needed: int, purpose: str) -> None:
    """Check the file system that `folder` is or will be on.

    Raises:
        StorageError: less than `needed` bytes and a margin are free.
    """
    place = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(place).free
    if free < needed + DISK_MARGIN_BYTES:
        wanted = (needed + DISK_MARGIN_BYTES) / GB
        raise StorageError(
            f"{purpose} needs {wanted:.1f} GB on the disk of {place}, {free / GB:.1f} GB are free.",
            hint="Free some space or choose another place: -w FOLDER",
        )


def memory_need(profile: ModelProfile) -> int:
    """Bytes of main memory that converting, quantizing or measuring this model takes at its peak."""
    return LIBRARIES_BYTES + BYTES_PER_PARAMETER * profile.tensors.parameters


def require_memory(profile: ModelProfile, purpose: str) -> None:
    """Check this machine's memory.

    Raises:
        DoesNotFitError: the kernel would end the worker halfway.
    """
    needed, present = memory_need(profile), usable_memory_bytes()
    if needed > present:
        raise DoesNotFitError(
            f"{purpose} needs about {needed / GB:.0f} GB of main memory, this machine has {present / GB:.0f} GB.",
            hint="Run this stage on a larger machine, or serve the checkpoint as it is: --scheme as_is",
        )
