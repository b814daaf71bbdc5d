"""A folder of safetensors as it lies on the disk: headers, sizes, hashes, the files that travel along."""

import hashlib
import json
import math
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autoadapter.errors import BrokenCheckpointError
from autoadapter.rendering import write_atomically

MANIFEST = ".autoadapter.json"
WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx", ".index.json")
LARGEST_HEADER = 100_000_000
"""Bytes. Source: safetensors' own limit."""


@dataclass(frozen=True)
class Tensor:
    """One entry of a safetensors header."""

    dtype: str
    """safetensors' word: `BF16`, `I8`, `F8_E4M3`, …"""
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Product of the shape."""
        return math.prod(self.shape)


def read_headers(folder: Path) -> dict[str, Tensor]:
    """Every tensor of every `*.safetensors` in `folder`; no weight is read.

    Raises:
        BrokenCheckpointError: a file is cut or is no safetensors.
    """
    return {name: tensor for path in sorted(folder.glob("*.safetensors")) for name, tensor in _read_header(path)}


def _read_header(path: Path) -> Iterator[tuple[str, Tensor]]:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        text = file.read(length) if length <= LARGEST_HEADER else b""
    try:
        entries = {name: entry for name, entry in json.loads(text).items() if name != "__metadata__"}
        end = max((entry["data_offsets"][1] for entry in entries.values()), default=0)
    except (ValueError, KeyError, AttributeError, TypeError):
        raise BrokenCheckpointError(path, "the header cannot be read") from None
    if path.stat().st_size != 8 + length + end:
        raise BrokenCheckpointError(path, "the file is shorter or longer than its header says")
    for name, entry in entries.items():
        yield name, Tensor(entry["dtype"], tuple(entry["shape"]))


def weight_bytes(folder: Path) -> int:
    """Bytes of the safetensors files."""
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def hash_files(folder: Path) -> tuple[tuple[str, int, str], ...]:
    """Name, bytes and SHA-256 of each visible file at the top of `folder`: what vLLM can see."""
    return tuple((path.name, path.stat().st_size, _sha256(path)) for path in visible_files(folder))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def visible_files(folder: Path) -> tuple[Path, ...]:
    """Plain files at the top of `folder`, hidden ones left out, by name."""
    return tuple(path for path in sorted(folder.iterdir()) if path.is_file() and not path.name.startswith("."))


def copy_companions(source: Path, output: Path) -> None:
    """Copy tokenizer, chat template, generation config and the like byte for byte; weights and config.json stay out."""
    for path in visible_files(source):
        if path.name != "config.json" and not path.name.endswith(WEIGHT_SUFFIXES):
            shutil.copyfile(path, output / path.name)


def merge_config(source: Path, output: Path, dtype: str) -> None:
    """Give `output` the source's config.json with the new dtype and quantization and nothing else changed."""
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    written = json.loads((output / "config.json").read_text(encoding="utf-8"))
    key = "torch_dtype" if "torch_dtype" in config and "dtype" not in config else "dtype"
    merged = config | {key: dtype}
    if "quantization_config" in written:
        merged["quantization_config"] = written["quantization_config"]
    write_atomically(output / "config.json", json.dumps(merged, indent=2, sort_keys=True) + "\n")


def open_permissions(folder: Path) -> None:
    """Make the files readable by the server's user: transformers writes weights with mode 0600."""
    for path in visible_files(folder):
        path.chmod(0o644)
