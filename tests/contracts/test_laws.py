"""The laws of the house: who may import whom, how large a file may grow, what is registered."""

import ast
import importlib
import re
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import WITH_ENGINE

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "autoadapter"
STAGE_ROOMS = {"analyze", "probe", "plan", "generate", "optimize", "verify", "deploy", "watch"}
SHARED_ROOMS = {
    "artifacts",
    "errors",
    "progress",
    "engine",
    "hardware",
    "families",
    "findings",
    "once",
    "rendering",
    "tables",
    "units",
}
JOINTS = {
    "pipeline",
    "api",
    "cli",
    "conformance",
    "workspace",
    "doctor",
    "freshness",
    "lazy",
    "model_code",
    "options",
    "sample",
}
HEAVY = {"torch", "transformers", "vllm", "llmcompressor", "compressed_tensors", "gguf", "datasets"}
TERMINAL = {"typer", "rich"}
PLUGIN_FOLDERS = {
    "analyze/axes": "AXES",
    "optimize/backends": "BACKENDS",
    "verify/checks": "CHECKS",
    "deploy/targets": "TARGETS",
}
MEDIAN_LINES, MOST_LINES, P90_FUNCTION_LINES = 120, 400, 40


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """(dotted name, line) of every import, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            yield node.module or "", node.lineno


def allowed_rooms(own: str) -> set[str]:
    if own in STAGE_ROOMS:
        return SHARED_ROOMS | {own}
    if own in SHARED_ROOMS:
        return SHARED_ROOMS
    return STAGE_ROOMS | SHARED_ROOMS | JOINTS


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_import_law(path: Path) -> None:
    own = room(path)
    for name, line in imports(path):
        parts = name.split(".")
        if parts[0] == "autoadapter" and len(parts) > 1 and own != "__init__":
            assert parts[1] in allowed_rooms(own), f"{path}:{line}: {own} may not import {name}"
        if parts[0] in TERMINAL:
            assert own == "cli", f"{path}:{line}: only cli/ imports {name}"
        assert parts[0] != "click", f"{path}:{line}: typer carries its own click"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_heavy_packages_live_in_workers(path: Path) -> None:
    """Heavy packages such as torch are imported only by scripts that run in a process of their own."""
    in_worker = "workers" in path.relative_to(PACKAGE).parts or path.name == "launcher.py"
    for name, line in imports(path):
        if name.split(".")[0] in HEAVY:
            assert in_worker, f"{path}:{line}: {name} outside a worker"


@pytest.mark.parametrize(("folder", "registry"), PLUGIN_FOLDERS.items())
def test_every_plugin_is_registered(folder: str, registry: str) -> None:
    """Every public module of a plug-in folder contributes exactly one member to the folder's tuple."""
    package = importlib.import_module("autoadapter." + folder.replace("/", "."))
    members = getattr(package, registry)
    assert isinstance(members, tuple)
    homes = [_home(member) for member in members]
    files = {path.stem for path in (PACKAGE / folder).glob("*.py") if not path.stem.startswith("_")}
    assert sorted(home.rsplit(".", 1)[-1] for home in homes) == sorted(files)


def _home(member: object) -> str:
    return member.__name__ if isinstance(member, type(ast)) else getattr(member, "__module__", type(member).__module__)


def test_file_budget() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in modules()}
    too_long = {str(path): count for path, count in lengths.items() if count > MOST_LINES}
    assert not too_long
    assert statistics.median(lengths.values()) <= MEDIAN_LINES


def test_function_budget() -> None:
    spans = [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    ]
    assert statistics.quantiles(spans, n=10)[-1] <= P90_FUNCTION_LINES


def test_public_names_are_documented() -> None:
    missing = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in modules()
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert not missing


def test_no_unpickling_and_no_shell() -> None:
    forbidden = re.compile(
        r"pickle\.loads?\(|torch\.load\(|shell=True|(?<![.\w])(?:eval|exec)\(|os\.system\(|yaml\.load\(|\bpkill\b"
    )
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in modules()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if forbidden.search(line)
    ]
    assert not found


def test_what_starts_an_engine_stays_in_one_process() -> None:
    """The scheduler goes by path, so every file with such a test must be on its list."""
    marked = re.compile(r"pytest\.mark\.(engine|quantizer)\b")
    files = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")]
    strays = [file for file in files if marked.search((ROOT / file).read_text(encoding="utf-8"))]
    assert strays and all(file.startswith((*WITH_ENGINE, "tests/contracts/")) for file in strays), strays
