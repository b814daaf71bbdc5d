"""Where a model's files come from: a folder, one GGUF file, or the Hub. Weights are only ever read by range."""

from autoadapter.analyze.sources.byte_source import ByteSource, FileSource
from autoadapter.analyze.sources.repository import FileStat, GgufFile, LocalFolder, Repository, open_repository

__all__ = ["ByteSource", "FileSource", "FileStat", "GgufFile", "LocalFolder", "Repository", "open_repository"]
