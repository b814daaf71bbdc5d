"""What a Python file imports, from its syntax tree.

Source of what counts as optional: transformers 5.19 `dynamic_module_utils.py:get_imports`, which refuses to load a file
whose other imports are not installed.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

MOST_BYTES = 1024 * 1024
"""The longest modeling files in use have some 200 kB."""


@dataclass(frozen=True)
class Import:
    """One name that a file asks for."""

    module: str
    """Dotted, as written: `transformers.cache_utils`; `configuration_x` for a relative one."""
    name: str | None
    """What is taken from it; None for `import module`."""
    file: str
    line: int
    level: int = 0
    """Dots before the module; 0 for an absolute import."""
    optional: bool = False
    """Inside `try`, or behind a check that the package is available."""

    @property
    def package(self) -> str:
        """The first part of the module."""
        return self.module.partition(".")[0]

    @property
    def dotted(self) -> str:
        """Module and name."""
        return f"{self.module}.{self.name}" if self.name else self.module


def imports_of(source: bytes, file: str) -> tuple[Import, ...] | str:
    """Imports in the file's order, or why it cannot be parsed, as the end of a sentence."""
    if len(source) > MOST_BYTES:
        return f"has {len(source)} bytes and was not scanned: more than any modeling file has"
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        return f"is no valid Python: {error.msg} (line {error.lineno})"
    except (ValueError, RecursionError, MemoryError):
        return "is no valid Python: it holds null bytes or is nested too deep"
    try:
        return tuple(sorted(_below(tree, file, False), key=lambda found: found.line))
    except RecursionError:
        return "is nested too deep to be scanned"


def _below(node: ast.AST, file: str, optional: bool) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        yield from (Import(alias.name, None, file, node.lineno, optional=optional) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            yield Import(node.module or "", alias.name, file, node.lineno, node.level, optional)
    elif not isinstance(node, ast.expr):
        guarded = optional or isinstance(node, ast.Try) or (isinstance(node, ast.If) and _asks_availability(node.test))
        for child in ast.iter_child_nodes(node):
            yield from _below(child, file, guarded)


def _asks_availability(test: ast.expr) -> bool:
    """`is_flash_attn_2_available()`, `TYPE_CHECKING` and their like."""
    for node in ast.walk(test):
        name = getattr(node.func, "id", getattr(node.func, "attr", "")) if isinstance(node, ast.Call) else ""
        if name.startswith("is_") and "available" in name:
            return True
        if isinstance(node, ast.Name) and node.id == "TYPE_CHECKING":
            return True
    return False
