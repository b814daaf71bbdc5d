"""How text from outside enters generated code: only as a literal, never raw.

A model id, a path or a chat template may hold quotes, newlines, triple quotes, `$(…)` or Jinja. Each filter makes one
inert literal of the language that it is named after.
"""

import json
import re
import shlex
from collections.abc import Callable


def py_literal(value: object) -> str:
    """A Python literal with double quotes where Python allows, as ruff formats it."""
    if isinstance(value, str):
        return _py_string(value)
    if isinstance(value, list | tuple):
        inner = ", ".join(py_literal(item) for item in value)
        return f"[{inner}]"
    return repr(value)


def _py_string(text: str) -> str:
    if '"' in text and "'" not in text:
        return "'" + repr('"' + text)[2:] if repr(text).startswith("'") else repr(text)
    return json.dumps(text, ensure_ascii=True)


def sh_literal(value: object) -> str:
    """One shell word."""
    return shlex.quote(str(value))


def yaml_literal(value: object) -> str:
    """A YAML scalar or flow list that no YAML 1.1 or 1.2 reader takes for another type: JSON is YAML."""
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def json_literal(value: object) -> str:
    """A JSON value."""
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def comment(value: object) -> str:
    """Text for one line of a comment or of Markdown: control characters and line breaks become spaces."""
    return re.sub(r"[\x00-\x1f\x7f\u0085\u2028\u2029]+", " ", str(value)).replace('"""', "'''")


def code_span(value: object) -> str:
    """A Markdown code span that its content cannot close."""
    text = comment(value)
    fence = "`" * (max((len(run) for run in re.findall(r"`+", text)), default=0) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


FILTERS: dict[str, Callable[[object], str]] = {
    "py": py_literal,
    "sh": sh_literal,
    "yaml": yaml_literal,
    "json": json_literal,
    "comment": comment,
    "code": code_span,
}
