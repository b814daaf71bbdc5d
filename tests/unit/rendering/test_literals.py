"""Whatever text comes from outside, a literal filter makes it inert and equal."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from autoadapter.rendering.literals import cell, code_span, comment, json_literal, py_literal, sh_literal, yaml_literal
from autoadapter.rendering.writer import to_yaml

HOSTILE = (
    "",
    "plain",
    'it\'s "quoted"',
    "'''",
    '"""; import os; """',
    "a\nb\r\nc\td",
    "{{ view }}{% raw %}",
    "$(touch /tmp/pwned) `id` ${HOME} !x",
    "back\\slash \\ud83d\\ude00 \\n",
    "\U0001f600 emoji \u2028 \u0085 \ufeff \x7f \x00",
    "-rf",
    "y",
    "no",
    "1e3",
    "0o17",
    "12:30:00",
    "null",
    "# not a comment",
    ": - ?",
)
text = st.text(max_size=60) | st.sampled_from(HOSTILE)
shell_text = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=40)


@given(text)
@settings(max_examples=400)
def test_python_literal_evaluates_to_the_same_text(value: str) -> None:
    literal = py_literal(value)
    assert ast.literal_eval(literal) == value
    assert literal.isascii()
    assert "\n" not in literal


@given(st.lists(text | st.integers() | st.booleans() | st.none(), max_size=5))
def test_python_literal_of_a_list(value: list[object]) -> None:
    assert ast.literal_eval(py_literal(value)) == value


@pytest.mark.parametrize("value", HOSTILE)
def test_python_literal_is_as_ruff_formats_it(value: str, tmp_path: Path) -> None:
    file = tmp_path / "made.py"
    file.write_text(f"TEXT = {py_literal(value)}\n")
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--check", str(file)]
    assert subprocess.run(command, capture_output=True).returncode == 0, file.read_text()


@given(shell_text)
@settings(max_examples=40, deadline=None)
@example("$(echo pwned) '; echo pwned; '")
def test_shell_literal_is_one_inert_word(value: str) -> None:
    done = subprocess.run(["sh", "-c", f"printf %s {sh_literal(value)}"], capture_output=True, check=True)
    assert done.stdout.decode() == value


@given(text | st.integers() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.lists(text))
@settings(max_examples=400)
def test_yaml_literal_reads_back(value: object) -> None:
    assert yaml.safe_load(f"key: {yaml_literal(value)} # why") == {"key": value}


@given(text | st.lists(text))
def test_json_literal_reads_back(value: object) -> None:
    assert json.loads(json_literal(value)) == value


document = st.recursive(
    text.filter(lambda value: "\x00" not in value) | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(document)
@settings(max_examples=300)
def test_yaml_document_reads_back(value: object) -> None:
    assert yaml.safe_load(to_yaml(value)) == value


@pytest.mark.parametrize("word", ["y", "N", "yes", "No", "on", "OFF", "true", "False", "null", "~", "1e3", "0o17", "1"])
def test_words_that_some_reader_takes_for_another_type_are_quoted(word: str) -> None:
    assert to_yaml({"key": word}) in (f'key: "{word}"\n', f"key: '{word}'\n")


@given(text)
def test_a_comment_stays_on_its_line(value: str) -> None:
    assert len(comment(value).splitlines()) <= 1
    assert '"""' not in comment(value)


@given(text)
def test_a_cell_cannot_leave_its_column(value: str) -> None:
    made = cell(value)
    assert len(made.splitlines()) <= 1
    bare = made.replace("\\\\", "")
    assert all(bare[index - 1] == "\\" for index, char in enumerate(bare) if char in "|<")


def test_a_code_span_outgrows_the_backticks_inside() -> None:
    assert code_span("a`b") == "``a`b``"
    assert code_span("`") == "`` ` ``"
