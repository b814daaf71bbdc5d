"""`vllm/env`: shell assignments, as `set -a; . vllm/env` reads them."""

import re
import shlex
from pathlib import Path

from autoadapter.errors import WorkspaceError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_env(path: Path) -> dict[str, str]:
    """Variables of the file. `#` starts a comment, values may be quoted, nothing is expanded or run.

    Raises:
        WorkspaceError: something else than assignments stands in it.
    """
    try:
        words = shlex.split(path.read_text(encoding="utf-8"), comments=True)
    except ValueError:
        raise _unreadable(path, "a quote does not close") from None
    return dict(_parse(word, path) for word in words)


def _parse(word: str, path: Path) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not _NAME.fullmatch(name):
        raise _unreadable(path, f"{word!r} is not NAME=VALUE")
    return name, value


def _unreadable(path: Path, problem: str) -> WorkspaceError:
    return WorkspaceError(f"{path}: {problem}.", hint="autoadapter generate --force")
