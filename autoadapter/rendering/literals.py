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
    """ASCII, in the quotes that ruff prefers: double, unless single ones save escapes."""
    quote = "'" if text.count('"') > text.count("'") else '"'
    body = ascii("'\"" + text)[4:-1].replace("\\'", "'")  # both quotes first: `ascii` then escapes the single ones only
    return quote + body.replace(quote, "\\" + quote) + quote


def sh_literal(value: object) -> str:
    """One shell word."""
    return shlex.quote(str(value))


def yaml_literal(value: object) -> str:
    """A YAML scalar or flow list that no YAML 1.1 or 1.2 reader takes for another type.

    Not JSON: YAML writes a character beyond 16 bits as one escape, and YAML 1.1 takes `1e-05` for text.
    """
    if isinstance(value, str):
        return '"' + "".join(_yaml_char(char) for char in value) + '"'
    if isinstance(value, list | tuple):
        return "[" + ", ".join(yaml_literal(item) for item in value) + "]"
    if isinstance(value, float):
        return re.sub(r"^(-?\d+)e", r"\1.0e", repr(value))
    return json.dumps(value)


def _yaml_char(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    if " " <= char <= "~":
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else (f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")


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


def cell(value: object) -> str:
    """Text for a cell of a Markdown table: no line break, no column break, no markup."""
    return re.sub(r"([\\|<>`*_\[\]])", r"\\\1", comment(value))


FILTERS: dict[str, Callable[[object], str]] = {
    "py": py_literal,
    "sh": sh_literal,
    "yaml": yaml_literal,
    "json": json_literal,
    "comment": comment,
    "code": code_span,
    "cell": cell,
}
