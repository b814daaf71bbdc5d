"""What `generate` writes, file by file, and that the Python among it is clean as it stands."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from golden_cases import CASES, Case, write_case

from autoadapter.artifacts import AdapterBundle, ServingPlan

HERE = Path(__file__).parent
LINT = ["check", "--isolated", "--line-length", "120", "--select", "E,F,I,UP,B,D1,RUF", "--no-cache"]
FORMAT = ["format", "--isolated", "--line-length", "120", "--check", "--no-cache"]
BOTH_BRANCHES = ("dense_on_cpu", "hostile_names")
"""With and without chat template, lossless and not, with and without stop tokens: mypy takes ten seconds a tree."""
named = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def tree(folder: Path) -> dict[str, str]:
    paths = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)): path.read_text() for path in paths if not path.name.startswith(".")}


@named
def test_output_is_the_golden_tree(case: Case, tmp_path: Path) -> None:
    write_case(case, tmp_path / case.name)
    made, golden = tree(tmp_path / case.name), tree(HERE / case.name)
    assert made.keys() == golden.keys()
    for path in golden:
        assert made[path] == golden[path], f"{path}: python tests/golden/regenerate.py, then read the diff"


def test_every_folder_is_a_case() -> None:
    folders = {path.name for path in HERE.iterdir() if (path / "profile.json").exists()}
    assert folders == {case.name for case in CASES}


@named
def test_generated_python_is_clean(case: Case) -> None:
    folder = HERE / case.name / "adapter"
    long_lines = ["--ignore", "E501"] if case.name == "hostile_names" else []
    for command in ([*LINT, *long_lines], FORMAT):
        done = subprocess.run([sys.executable, "-m", "ruff", *command, folder], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("case", [case for case in CASES if case.name in BOTH_BRANCHES], ids=lambda case: case.name)
def test_generated_python_is_typed(case: Case, tmp_path: Path) -> None:
    folder = tmp_path / "adapter"
    shutil.copytree(HERE / case.name / "adapter", folder)
    files = [str(path) for name in ("tokenizer", "tests") for path in (folder / name).glob("*.py")]
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", str(tmp_path), *files]
    env = {**os.environ, "MYPYPATH": str(folder / "tokenizer")}
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@named
def test_config_says_what_the_plan_says(case: Case) -> None:
    plan = ServingPlan.read(HERE / case.name / "plan.json")
    config = yaml.safe_load((HERE / case.name / "adapter" / "vllm" / "config.yaml").read_text())
    assert config == {
        setting.flag: list(setting.value) if isinstance(setting.value, tuple) else setting.value
        for setting in plan.settings
    }
    assert "model" not in config


@named
def test_env_is_what_a_shell_reads(case: Case) -> None:
    plan = ServingPlan.read(HERE / case.name / "plan.json")
    file = HERE / case.name / "adapter" / "vllm" / "env"
    done = subprocess.run(["sh", "-c", 'set -a; . "$0"; env', file], capture_output=True, text=True, env={}, check=True)
    read = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert {variable.name: variable.value for variable in plan.env}.items() <= read.items()


@named
def test_manifest_names_every_file(case: Case) -> None:
    folder = HERE / case.name / "adapter"
    bundle = AdapterBundle.read(folder / "adapter.json")
    assert {file.path for file in bundle.files} | {"adapter.json"} == tree(folder).keys()


@named
def test_special_tokens_are_the_same_in_module_and_json(case: Case) -> None:
    folder = HERE / case.name / "adapter" / "tokenizer"
    assigned = {
        node.target.id: ast.literal_eval(node.value)
        for node in ast.parse((folder / "tokenizer_adapter.py").read_text()).body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None
        if node.target.id in ("SPECIAL_TOKENS", "MODEL")
    }
    written = json.loads((folder / "special_tokens.json").read_text())
    known = {token.text: token.id for token in case.profile.tokenizer.special_tokens if token.id is not None}
    assert assigned["SPECIAL_TOKENS"] == written["by_text"] == known
    assert assigned["MODEL"] == case.profile.ref.name


def test_hostile_text_stays_text() -> None:
    """Nothing of the hostile case became code, a heading, a table column or a template."""
    folder = HERE / "hostile_names" / "adapter"
    module = ast.parse((folder / "tokenizer" / "tokenizer_adapter.py").read_text())
    imported = {name.name for node in ast.walk(module) if isinstance(node, ast.Import) for name in node.names}
    assert imported == {"json", "jinja2"}
    readme = (folder / "README.md").read_text()
    tables = [line for line in readme.splitlines() if line.startswith("|")]
    widths = {len(re.findall(r"(?<!\\)\|", line.replace("\\\\", ""))) for line in tables}
    assert widths <= {3, 4, 5, 6}
    assert "<b>" not in re.sub(r"`+[^\n]*?`+", "", readme)
