"""GGML files, the format before GGUF: known by their first bytes, and served by no engine here."""

from pathlib import Path

from autoadapter.analyze.sources.byte_source import ByteSource
from autoadapter.errors import UnsupportedModelError

MAGICS = (b"lmgg", b"fmgg", b"tjgg", b"algg")
"""`ggml`, `ggmf`, `ggjt` and `ggla` as little-endian numbers. Source: llama.cpp before August 2023, `llama.cpp`."""
MAGIC_BYTES = 4


def is_ggml(source: ByteSource) -> bool:
    """Whether a file begins like one."""
    return source.size >= MAGIC_BYTES and source.read(0, MAGIC_BYTES) in MAGICS


def ggml_error(path: str | Path) -> UnsupportedModelError:
    """What to tell of such a file."""
    return UnsupportedModelError(
        f"{path} is a GGML file, the format before GGUF: vLLM cannot serve it, and nothing here can convert it.",
        hint="Take the model's safetensors files, or a GGUF of it.",
    )
