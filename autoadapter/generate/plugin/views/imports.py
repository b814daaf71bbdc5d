"""Import statements as ruff sorts and wraps them."""

import sys
from collections.abc import Iterable

LINE = 120


def import_lines(names: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Lines that import each (module, name); an empty name imports the module itself.

    Sections: standard library, others, the package's own; a blank line between them.
    """
    sections: list[list[str]] = []
    found = set(names)
    for rank in range(3):
        members = {pair for pair in found if _rank(pair[0]) == rank}
        if members:
            sections.append(_section(members))
    return tuple(line for number, lines in enumerate(sections) for line in ([""] if number else []) + lines)


def _rank(module: str) -> int:
    if module.startswith("."):
        return 2
    return 0 if module.split(".")[0] in sys.stdlib_module_names else 1


def _section(members: set[tuple[str, str]]) -> list[str]:
    lines = [f"import {module}" for module in sorted(module for module, name in members if not name)]
    for module in sorted({module for module, name in members if name}):
        names = sorted((name for found, name in members if found == module and name), key=_order)
        line = f"from {module} import {', '.join(names)}"
        lines += [line] if len(line) <= LINE else _wrapped(module, names)
    return lines


def _wrapped(module: str, names: list[str]) -> list[str]:
    return [f"from {module} import (", *(f"    {name}," for name in names), ")"]


def _order(name: str) -> tuple[int, str]:
    kind = 0 if name.isupper() and len(name) > 1 else (1 if name[0].isupper() else 2)
    return kind, name
