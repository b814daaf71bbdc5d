"""What `deploy` writes, file by file."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden_deploy.deploy_golden_cases import CASES, BundleCase, bundle_tree

HERE = Path(__file__).parent
named = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@named
def test_bundle_is_the_golden_tree(case: BundleCase, tmp_path: Path) -> None:
    made = bundle_tree(case, tmp_path)
    paths = [path for path in (HERE / case.name).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    golden = {path.relative_to(HERE / case.name).as_posix(): path.read_text() for path in paths}
    assert made.keys() == golden.keys()
    for path in golden:
        assert made[path] == golden[path], f"{path}: python -m tests.golden_deploy.regenerate, then read the diff"


def test_every_folder_is_a_case() -> None:
    folders = {path.name for path in HERE.iterdir() if (path / "manifest.json").exists()}
    assert folders == {case.name for case in CASES}


@named
def test_smoke_script_is_clean(case: BundleCase) -> None:
    script = HERE / case.name / "smoke.py"
    rules = "E,F,I,UP,B,D1,ANN,RUF"
    lint = ["check", "--isolated", "--line-length", "120", "--select", rules, "--ignore", "ANN401,D107", "--no-cache"]
    for command in (lint, ["format", "--isolated", "--line-length", "120", "--check", "--no-cache"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--target-version", "py39", script],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
