"""Text is read and written in a named encoding: under LC_ALL=POSIX the default is ASCII."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*(ROOT / "autoadapter").rglob("*.py"), *(ROOT / "scripts").rglob("*.py")])
MODE = re.compile(r"[rwaxt+]+")
"""Of text; what is opened for bytes has a `b`."""
OPENERS = {"open": 1, "fdopen": 1, "NamedTemporaryFile": 0, "TemporaryFile": 0}
"""Functions → position of the mode."""


def mode_of(call: ast.Call, position: int) -> str | None:
    """The mode that a call states; "r" where it states none, None where the argument is no mode at all."""
    stated = next((word.value for word in call.keywords if word.arg == "mode"), None)
    stated = stated or (call.args[position] if len(call.args) > position else None)
    if stated is None:
        return "r"
    return stated.value if isinstance(stated, ast.Constant) and isinstance(stated.value, str) else None


def is_text(call: ast.Call) -> bool:
    """Whether a call reads or writes text, by what the standard library's names mean."""
    words = {word.arg: word.value for word in call.keywords}
    truly = (words.get(name) for name in ("text", "universal_newlines"))
    if any(isinstance(value, ast.Constant) and value.value is True for value in truly):
        return True
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name == "write_text":
        return True
    if name == "read_text":
        return not call.args  # with one it is a distribution's, which knows its encoding
    if name not in OPENERS or (isinstance(call.func, ast.Attribute) and ast.unparse(call.func) == "os.open"):
        return False
    bound = name == "open" and isinstance(call.func, ast.Attribute)
    mode = mode_of(call, 0 if bound else OPENERS[name])
    if name.endswith("TemporaryFile") and mode == "r":
        return False  # bytes where no mode is stated
    return mode is not None and MODE.fullmatch(mode) is not None


def unnamed(tree: ast.AST) -> Iterator[ast.Call]:
    """Calls that leave the encoding to the locale."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and is_text(node) and "encoding" not in {word.arg for word in node.keywords}:
            yield node


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_text_names_its_encoding(path: Path) -> None:
    calls = unnamed(ast.parse(path.read_text(encoding="utf-8")))
    assert [f"line {call.lineno}: {ast.unparse(call)[:80]}" for call in calls] == []


@pytest.mark.parametrize(
    "code",
    [
        "path.read_text()", "path.write_text(x)", "open(x)", "path.open('w')", "os.fdopen(fd, 'w')", "path.open()",
        "subprocess.run(x, text=True)", "NamedTemporaryFile('w')",
    ],
)  # fmt: skip
def test_the_law_sees(code: str) -> None:
    assert list(unnamed(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "path.read_text(encoding='utf-8')", "open(x, 'rb')", "path.open('wb')", "repository.open(name)",
        "os.open(x, flags)", "distribution.read_text('RECORD')", "NamedTemporaryFile()", "subprocess.run(x)",
    ],
)  # fmt: skip
def test_the_law_leaves_bytes_alone(code: str) -> None:
    assert not list(unnamed(ast.parse(code)))
