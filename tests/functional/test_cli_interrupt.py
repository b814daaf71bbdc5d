"""Ctrl-C in the stages that need no engine: exit 130, nothing half-written, the next call finishes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.functional.conftest import Command

STAGES = ("analyze", "generate", "optimize", "deploy")
HOLD = """
import signal, sys
from autoadapter.rendering import writer
real = writer.write_atomically
def slow(path, content):
    if path.name.startswith({trigger!r}):
        print("HERE", file=sys.stderr, flush=True)
        signal.sigtimedwait([], 30)
    real(path, content)
writer.write_atomically = slow
import autoadapter.rendering
autoadapter.rendering.write_atomically = slow
from autoadapter.cli.app import main
sys.argv = ["autoadapter", *sys.argv[1:]]
main()
"""
"""Runs the command and stops, in the middle of the stage's work, just before it writes a file of this name."""
TRIGGERS = {"analyze": "profile.json", "generate": "config.yaml", "optimize": "optimized.json", "deploy": "bundle.json"}


def words_of(stage: str, model: Path) -> list[str]:
    extra = {"analyze": [str(model)], "generate": ["--scheme", "as_is"], "deploy": ["--allow-untested"]}
    return [stage, *extra.get(stage, []), "-w", "ws"]


@pytest.mark.parametrize("stage", STAGES)
def test_interrupted_in_the_middle(autoadapter: Command, tiny_model: Path, tmp_path: Path, stage: str) -> None:
    for earlier in STAGES[: STAGES.index(stage)]:
        assert autoadapter(*words_of(earlier, tiny_model)).code == 0
    code = HOLD.format(trigger=TRIGGERS[stage])
    command = [sys.executable, "-c", code, *words_of(stage, tiny_model)]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stderr
        assert any("HERE" in line for line in iter(process.stderr.readline, ""))
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Interrupted. What was finished is kept." in err
    assert "Traceback" not in err
    assert not list((tmp_path / "ws").rglob(TRIGGERS[stage])), "written although interrupted"
    assert not leftovers(tmp_path / "ws")
    answer = autoadapter(*words_of(stage, tiny_model))
    assert answer.code == 0, answer.err


def leftovers(workspace: Path) -> list[Path]:
    """Drafts that an interrupted stage forgot, and JSON that does not parse."""
    drafts = [path for path in workspace.rglob(".*") if path.name != ".lock"]
    for path in workspace.rglob("*.json"):
        json.loads(path.read_text())
    return drafts
