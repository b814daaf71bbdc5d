"""Statements as ruff wraps them."""

from collections.abc import Iterator

LIMIT = 120


def wrapped(statement: str, indent: int = 8) -> tuple[str, ...]:
    """A statement as lines that fit.

    Args:
        statement: one line, whatever its length: an assignment of a call, a sum or a choice.
        indent: what the template puts before each line.
    """
    inner = statement.lstrip()
    if len(statement) + indent <= LIMIT:
        return (statement,)
    if inner != statement:
        deeper = len(statement) - len(inner)
        return tuple(" " * deeper + line for line in wrapped(inner, indent + deeper))
    target, _, value = statement.partition(" = ")
    if value.endswith(")") and value.split("(")[0].replace(".", "").isidentifier():
        return tuple(_call(target, value, indent))
    if value.startswith("{"):
        return (f"{target} = {{", *(f"    {item}," for item in _split(value[1:-1])), "}")
    if value.startswith("("):
        return (f"{target} = (", *(f"    {item}," for item in _split(value[1:-1]) if item), ")")
    if len(value) + indent + 4 <= LIMIT:
        return (f"{target} = (", f"    {value}", ")")
    breaks = (" + ",) if " + " in value else (" if ", " else ")
    return (f"{target} = (", *(f"    {line}" for line in _broken(value, breaks)), ")")


def _call(target: str, value: str, indent: int) -> Iterator[str]:
    name, _, rest = value.partition("(")
    arguments = rest[:-1]
    yield f"{target} = {name}("
    if len(arguments) + indent + 4 <= LIMIT:
        yield f"    {arguments}"
    else:
        yield from (f"    {argument}," for argument in _split(arguments))
    yield ")"


def _split(arguments: str) -> list[str]:
    """Arguments apart, with brackets respected."""
    found, depth = [""], 0
    for char in arguments:
        depth += (char in "([{") - (char in ")]}")
        if char == "," and not depth:
            found.append("")
        else:
            found[-1] += char
    return [text.strip() for text in found]


def _broken(value: str, breaks: tuple[str, ...]) -> list[str]:
    for separator in breaks:
        value = value.replace(separator, f"\n{separator.lstrip()}")
    return value.split("\n")
