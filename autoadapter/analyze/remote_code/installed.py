"""Whether an installed transformers has a name, found in its files. It is not imported, which would take seconds.

The answer is "no" only where all places were looked at that Python would find the name in: the module's own text,
its star imports, transformers' table of lazy imports, and the files of its models.
"""

import ast
import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

ROOT = "transformers"
MOST_STARS = 3
"""Star imports that are followed, one behind the other."""


class InstalledTransformers:
    """The files of one installation."""

    def __init__(self, folder: Path) -> None:
        """Describe an installation; nothing is read yet.

        Args:
            folder: `site-packages/transformers`.
        """
        self._folder = folder
        self._texts: dict[Path, bytes] = {}

    def lacking(self, wanted: Iterable[tuple[str, str | None]]) -> set[tuple[str, str | None]]:
        """Those pairs of module and name that the installation does not have."""
        lost = {pair for pair in wanted if not self._has(*pair)}
        top = {name for module, name in lost if module == ROOT and name}
        found = self._among_models(top)
        return {(module, name) for module, name in lost if not (module == ROOT and name in found)}

    def _has(self, module: str, name: str | None) -> bool:
        path = self._file(module)
        if path is None:
            return self._is_alias(module)
        if name is None or name == "*" or self._file(f"{module}.{name}") is not None:
            return True
        return self._binds(path, name, MOST_STARS) or self._is_lazy(path, module, name)

    def _file(self, module: str) -> Path | None:
        """The file of a dotted module; a package without an `__init__.py` stands for itself."""
        place = self._folder.joinpath(*module.split(".")[1:])
        candidates = (
            place.with_suffix(".py") if place != self._folder else place / "__init__.py",
            place / "__init__.py",
        )
        return next((path for path in candidates if path.is_file()), place if place.is_dir() else None)

    def _is_alias(self, module: str) -> bool:
        """Modules that transformers 5 keeps under their old names: `tokenization_utils_fast`, image processors."""
        if module.rpartition(".")[2].startswith("image_processing_") and module.endswith("_fast"):
            return self._file(module.removesuffix("_fast")) is not None
        return module.rpartition(".")[2].encode() in self._aliases

    @cached_property
    def _aliases(self) -> set[bytes]:
        return set(
            re.findall(rb"_create_module_alias\(f?\"\{__name__\}\.(\w+)\"", self._text(self._folder / "__init__.py"))
        )

    def _binds(self, path: Path, name: str, stars: int) -> bool:
        """Whether a module's text defines a name, imports it, or may make it at run time."""
        if path.is_dir():
            return False
        text = self._text(path)
        word = re.escape(name.encode())
        if re.search(rb"(?m)^(?:async +)?(?:def|class) +%b\b|^%b *[:=]" % (word, word), text):
            return True
        if not re.search(rb"\b%b\b|^from .* import \*|__getattr__" % word, text, re.MULTILINE):
            return False
        bound, starred = _bindings(text)
        if name in bound or "__getattr__" in bound:
            return True
        nearby = (self._sibling(path, dots, module) for dots, module in starred) if stars else ()
        return any(near is not None and self._binds(near, name, stars - 1) for near in nearby)

    def _sibling(self, path: Path, dots: int, module: str) -> Path | None:
        place = path.parents[dots - 1].joinpath(*module.split(".")) if module else path.parents[dots - 1]
        return next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()), None)

    def _is_lazy(self, path: Path, module: str, name: str) -> bool:
        """Names that a package imports when they are asked for: in its table, or in the files beside it."""
        if path.name != "__init__.py":
            return False
        text = self._text(path)
        if f'"{name}"'.encode() in text:
            return True
        if module == ROOT or b"define_import_structure" not in text:
            return False
        return any(self._binds(file, name, 0) for file in path.parent.glob("*.py") if file != path)

    def _among_models(self, names: set[str]) -> set[str]:
        """Those names that some model lists in its `__all__`; `…Fast` is also kept as an alias."""
        sought = {name: {f'"{form}"'.encode() for form in (name, name.removesuffix("Fast"))} for name in names}
        found: set[str] = set()
        for file in self._folder.glob("models/*/*.py") if sought else ():
            text = file.read_bytes()
            found |= {name for name, forms in sought.items() if any(form in text for form in forms)}
            if len(found) == len(sought):
                break
        return found

    def _text(self, path: Path) -> bytes:
        if path not in self._texts:
            self._texts[path] = path.read_bytes()
        return self._texts[path]


def _bindings(text: bytes) -> tuple[set[str], list[tuple[int, str]]]:
    """Names bound outside of functions and classes, and relative star imports as (dots, module)."""
    bound: set[str] = set()
    starred: list[tuple[int, str]] = []
    left: list[ast.AST] = [ast.parse(text)]
    while left:
        node = left.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
            if isinstance(node, ast.ImportFrom) and node.level and any(alias.name == "*" for alias in node.names):
                starred.append((node.level, node.module or ""))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        left += ast.iter_child_nodes(node)
    return bound, starred
