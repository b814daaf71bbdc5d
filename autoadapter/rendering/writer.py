"""Files appear whole or not at all: written under a temporary name, flushed, renamed."""

import errno
import hashlib
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from autoadapter.errors import StorageError

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def explain_storage_errors(path: Path) -> Iterator[None]:
    """Turn a full disk, a forbidden folder or a folder in a file's place into a StorageError that says so."""
    try:
        yield
    except OSError as error:
        if error.errno in _DISK_FULL:
            hint = "Free some space and repeat the command: finished stages are kept."
            raise StorageError(f"The disk is full: {path} could not be written.", hint=hint) from error
        if isinstance(error, PermissionError) or error.errno == errno.EROFS:
            hint = "Choose a folder that you may write: -w FOLDER"
            raise StorageError(f"{path} may not be written: {error.strerror}.", hint=hint) from error
        if path.is_dir():
            hint = f"Move it out of the way: {shlex.join(['mv', str(path), f'{path}.old'])}"
            raise StorageError(f"{path} is a folder, and a file belongs there.", hint=hint) from error
        raise


def make_folder(folder: Path) -> None:
    """Make a folder and those above it.

    Raises:
        StorageError: something else has that name, or it may not be made there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, FileNotFoundError, NotADirectoryError) as error:
        hint = "Choose a folder that you may write: -w FOLDER"
        raise StorageError(f"The folder {folder} cannot be made: {error.strerror}.", hint=hint) from error


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that a crash leaves the old one or the new one, never half of one.

    Raises:
        StorageError: the disk is full or the folder may not be written.
    """
    data = content.encode() if isinstance(content, str) else content
    with explain_storage_errors(path):
        make_folder(path.parent)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


@contextmanager
def replace_folder(final: Path) -> Iterator[Path]:
    """Yield an empty folder beside `final` that takes its place only if the block succeeds.

    Raises:
        StorageError: the disk is full or the folder may not be written.
    """
    with explain_storage_errors(final):
        make_folder(final.parent)
        draft = Path(tempfile.mkdtemp(prefix=f".{final.name}.", dir=final.parent))
        draft.chmod(0o755)
        try:
            yield draft
            _swap(draft, final)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise


def _swap(draft: Path, final: Path) -> None:
    old = Path(tempfile.mkdtemp(prefix=f".{final.name}.old.", dir=final.parent))
    if final.exists():
        final.rename(old / "was")
    draft.rename(final)
    shutil.rmtree(old, ignore_errors=True)


def write_tree(folder: Path, files: Mapping[str, str]) -> dict[str, str]:
    """Write text files below `folder`. Returns path → SHA-256."""
    for name, text in files.items():
        write_atomically(folder / name, text)
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}


class _Dumper(yaml.SafeDumper):
    """Indents lists below their key and quotes what YAML 1.1 readers take for another type."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, False)


_YAML_12_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?|0o[0-7]+|0x[0-9a-fA-F]+")
"""Numbers of the YAML 1.2 core schema (section 10.3.2), some of which are text to YAML 1.1."""
_OTHER_LINE_BREAK = re.compile("[\r\x85\u2028\u2029]")
_YAML_BOOLISH = {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "~"}


def _represent_str(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    is_other = text.lower() in _YAML_BOOLISH or _YAML_12_NUMBER.fullmatch(text) or _OTHER_LINE_BREAK.search(text)
    style = '"' if is_other else ("|" if "\n" in text else None)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_str)


def to_yaml(document: Any) -> str:
    """A YAML document in the given key order, ready to be read by YAML 1.1 and 1.2."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
