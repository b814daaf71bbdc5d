"""`vllm/env` is read as a shell reads it, and nothing in it runs."""

import shlex
from pathlib import Path

import pytest

from autoadapter.deploy.envfile import read_env
from autoadapter.errors import WorkspaceError

VALUES = [
    "plain",
    "",
    "two words",
    "it's",
    'a "b"',
    "$HOME $(id) `id`",
    "back\\slash",
    "new\nline",
    "# no comment",
    "a=b",
]


def test_values_come_back_as_they_were(tmp_path: Path) -> None:
    wanted = {f"NAME_{index}": value for index, value in enumerate(VALUES)}
    lines = [f"# it's a comment\n{name}={shlex.quote(value)}" for name, value in wanted.items()]
    (tmp_path / "env").write_text("\n".join(lines) + "\n")
    assert read_env(tmp_path / "env") == wanted


@pytest.mark.parametrize("text", ["rm -r x\n", "1A=b\n", "A='open\n", "=x\n"])
def test_anything_else_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "env").write_text(text)
    with pytest.raises(WorkspaceError, match="env: "):
        read_env(tmp_path / "env")
