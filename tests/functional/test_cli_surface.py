"""The surface: help that teaches, JSON that parses, nothing heavy loaded."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from autoadapter import __version__
from tests.functional.conftest import Command

COMMANDS = ("run", "analyze", "generate", "optimize", "test", "deploy", "doctor", "prepare", "sample")
HEAVY = ("torch", "transformers", "vllm", "numpy", "gguf")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(autoadapter: Command, command: str) -> None:
    answer = autoadapter(command, "--help")
    assert answer.code == 0
    assert answer.out.startswith("Usage: ")
    assert "--json" in answer.out


def test_the_root_names_every_command(autoadapter: Command) -> None:
    answer = autoadapter("--help")
    assert answer.code == 0
    assert all(f"  {command} " in answer.out for command in COMMANDS)


def test_version(autoadapter: Command) -> None:
    assert autoadapter("--version").out == f"autoadapter {__version__}\n"


@pytest.mark.parametrize("words", [["--help"], ["analyze", "MODEL", "-w", "ws", "--json"], ["generate", "-w", "ws"]])
def test_no_heavy_import(tiny_model: Path, tmp_path: Path, words: list[str]) -> None:
    code = (
        "import sys\n"
        "from autoadapter.cli import app\n"
        "try: app.main()\n"
        "except SystemExit: pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)\n"
    )
    arguments = [str(tiny_model) if word == "MODEL" else word for word in words]
    if words[0] == "generate":
        subprocess.run(
            [sys.executable, "-m", "autoadapter", "analyze", tiny_model, "-w", "ws"], cwd=tmp_path, check=True
        )
    done = subprocess.run([sys.executable, "-c", code, *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == "[]", done.stderr


def test_help_loads_no_artifacts() -> None:
    code = "import sys; from autoadapter.cli import app; print('pydantic' in sys.modules, 'httpx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False False"


def test_json_is_one_document_and_words_go_to_stderr(autoadapter: Command, tiny_model: Path) -> None:
    answer = autoadapter("analyze", tiny_model, "-w", "ws", "--json")
    assert answer.code == 0, answer.err
    profile = json.loads(answer.out)
    assert profile["architecture"] == "LlamaForCausalLM"
    assert profile["tensors"]["parameters"] == 256 * 128 + 128 + 2 * (
        2 * 128 + 2 * 128 * 128 + 2 * 64 * 128 + 3 * 256 * 128
    )
    assert profile["memory"]["kv_bytes_per_token"] == 2 * 2 * 2 * 32 * 2
    plan = json.loads(autoadapter("generate", "-w", "ws", "--json").out)
    assert all(setting["why"] and setting["source"] for setting in plan["settings"])


def test_human_output_is_not_json(autoadapter: Command, tiny_model: Path) -> None:
    answer = autoadapter("analyze", tiny_model, "-w", "ws")
    assert "tiny-llama (LlamaForCausalLM)" in answer.out
    assert "next: autoadapter generate" in answer.err


def test_several_plans_live_side_by_side(autoadapter: Command, tiny_model: Path, tmp_path: Path) -> None:
    autoadapter("analyze", tiny_model, "-w", "ws")
    for strategy in ("balanced", "max_perf", "balanced"):
        assert autoadapter("generate", "-w", "ws", "--strategy", strategy).code == 0
    plans = {path.name: json.loads((path / "plan.json").read_text()) for path in (tmp_path / "ws" / "plans").iterdir()}
    assert sorted(plan["strategy"] for plan in plans.values()) == ["balanced", "max_perf"]
    assert plans[(tmp_path / "ws" / "current-plan").read_text().strip()]["strategy"] == "balanced"


def test_a_users_engine_argument_beats_the_plan(autoadapter: Command, tiny_model: Path) -> None:
    autoadapter("analyze", tiny_model, "-w", "ws")
    answer = autoadapter("generate", "-w", "ws", "--engine-arg", "max_num_seqs=3", "--json")
    settings = {row["flag"]: row for row in json.loads(answer.out)["settings"]}
    assert settings["max-num-seqs"]["value"] == 3
    assert settings["max-num-seqs"]["belief"] == "user flag"
