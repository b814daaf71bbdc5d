"""What is checked about a plugin before it runs: its entry point, and that it stands on its own feet."""

import ast
import shutil
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autoadapter.errors import UserError

GROUP = "vllm.general_plugins"
BORROWED = ("transformers.models", "transformers.modeling_utils", "vllm.model_executor.models.transformers")
"""Model code of others: with it the answer would not be the plugin's own."""


@dataclass(frozen=True)
class Plugin:
    """A plugin that vLLM finds through `sys.path`."""

    folder: Path
    """Goes on `sys.path`."""
    entry_point: str
    package: str
    """Top-level package of the entry point."""


def open_plugin(source: Path, scratch: Path) -> Plugin:
    """A plugin as vLLM would find it installed.

    Args:
        source: an unpacked wheel (with `*.dist-info`), or a project with `pyproject.toml`.
        scratch: an empty folder; a project is laid out there as if it were installed.

    Raises:
        UserError: no entry point of vLLM's group.
    """
    for stated in source.glob("*.dist-info/entry_points.txt"):
        name, _, target = next(_entry_points(stated.read_text(encoding="utf-8")), ("", "", ""))
        if target:
            return Plugin(source, name, _top(target))
    project = source / "pyproject.toml"
    entries = _declared(project)
    if not entries:
        raise UserError(f"{source} has no entry point of the group {GROUP}.", hint="Render the plugin again.")
    name, target = entries[0]
    return _lay_out(source, scratch, name, target)


def borrowed_imports(folder: Path) -> list[str]:
    """Modules of others' model code that a package imports, anywhere in its files, as `file:line module`.

    Raises:
        SyntaxError: a file is not Python.
    """
    found = [
        f"{path.relative_to(folder)}:{line} {name}"
        for path in sorted(folder.rglob("*.py"))
        for name, line in _imports(path)
        if any(name == taboo or name.startswith(taboo + ".") for taboo in BORROWED)
    ]
    return found


def _imports(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), path.name)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module, node.lineno
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def _declared(project: Path) -> list[tuple[str, str]]:
    if not project.is_file():
        return []
    document = tomllib.loads(project.read_text(encoding="utf-8"))
    groups = document.get("project", {}).get("entry-points", {})
    return [(str(name), str(target)) for name, target in groups.get(GROUP, {}).items()]


def _entry_points(text: str) -> Iterator[tuple[str, str, str]]:
    inside = False
    for line in text.splitlines():
        if line.startswith("["):
            inside = line.strip() == f"[{GROUP}]"
        elif inside and "=" in line:
            name, equals, target = line.partition("=")
            yield name.strip(), equals, target.strip()


def _lay_out(source: Path, scratch: Path, name: str, target: str) -> Plugin:
    package = _top(target)
    home = next((root for root in (source, source / "src") if (root / package).is_dir()), None)
    if home is None:
        raise UserError(f"{source} has no package {package}.", hint="Render the plugin again.")
    shutil.copytree(home / package, scratch / package, ignore=shutil.ignore_patterns("__pycache__"))
    info = scratch / f"{package}-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {target}\n", encoding="utf-8")
    return Plugin(scratch, name, package)


def _top(target: str) -> str:
    return target.partition(":")[0].partition(".")[0]
