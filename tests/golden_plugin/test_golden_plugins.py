"""What a plugin looks like, file by file, and that its Python is clean as it stands."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden_plugin.plugin_golden_cases import CASES, PluginCase, write_case

HERE = Path(__file__).parent
LINT = ["check", "--isolated", "--line-length", "120", "--select", "E,F,I,UP,B", "--no-cache"]
FORMAT = ["format", "--isolated", "--line-length", "120", "--check", "--no-cache"]
named = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def tree(folder: Path) -> dict[str, str]:
    paths = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in paths}


@named
def test_plugin_is_the_golden_tree(case: PluginCase, tmp_path: Path) -> None:
    write_case(case, tmp_path / case.name)
    made, golden = tree(tmp_path / case.name), tree(HERE / case.name)
    assert made.keys() == golden.keys()
    for path in golden:
        assert made[path] == golden[path], f"{path}: python -m tests.golden_plugin.regenerate, then read the diff"


def test_every_folder_is_a_case() -> None:
    folders = {path.name for path in HERE.iterdir() if (path / "pyproject.toml").exists()}
    specs = {path.stem for path in (HERE / "specs").iterdir()}
    assert folders == specs == {case.name for case in CASES}


def test_python_is_clean() -> None:
    folders = [HERE / case.name for case in CASES]
    for command in (LINT, FORMAT):
        done = subprocess.run([sys.executable, "-m", "ruff", *command, *folders], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@named
def test_no_part_of_the_model_is_unused(case: PluginCase) -> None:
    """What `__init__` keeps, something reads: in the module, or vLLM by name."""
    (path,) = (HERE / case.name).glob("vllm_adapter_*/model.py")
    module = ast.parse(path.read_text(encoding="utf-8"))
    attributes = [
        node for node in ast.walk(module) if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self"
    ]
    kept = {node.attr for node in attributes if isinstance(node.ctx, ast.Store)}
    read = {node.attr for node in attributes if isinstance(node.ctx, ast.Load)}
    by_vllm = {"make_empty_intermediate_tensors", "lm_head", "num_moe_layers", "num_expert_groups", "config"}
    by_vllm |= {"num_shared_experts", "num_routed_experts", "num_redundant_experts", "num_physical_experts"}
    assert kept - read <= by_vllm
