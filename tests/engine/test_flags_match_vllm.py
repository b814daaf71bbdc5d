"""The vocabulary in `flags.yaml` and the family rows against the installed vLLM's own parsers."""

import json
import subprocess
from pathlib import Path

import pytest

from autoadapter.engine import find_engine
from autoadapter.engine.flags import flags
from autoadapter.engine.process import LAUNCHER
from autoadapter.families import families

pytestmark = pytest.mark.engine

ASK = """
import json, sys
sys.path.insert(0, sys.argv[1])
import launcher
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.reasoning import ReasoningParserManager
from vllm.utils.argparse_utils import FlexibleArgumentParser
actions = make_arg_parser(FlexibleArgumentParser())._actions
options = {}
for action in actions:
    for name in action.option_strings:
        if name.startswith("--") and not name.startswith("--no-"):
            switch = "Boolean" in type(action).__name__ or "StoreTrue" in type(action).__name__
            choices = None if switch or not action.choices else [str(choice) for choice in action.choices]
            many = action.nargs in ("+", "*")
            options[name[2:]] = {"switch": switch, "many": many, "choices": choices, "metavar": str(action.metavar)}
print("ANSWER" + json.dumps({
    "options": options, "reasoning": list(ReasoningParserManager.list_registered()),
}))
"""
NOT_OPTIONS_OF_A_CONFIG = {"help", "config"}


@pytest.fixture(scope="module")
def vllm() -> dict[str, dict[str, dict[str, object]]]:
    """Options and parser names that the installed vLLM has."""
    engine = find_engine()
    done = subprocess.run([engine.python, "-c", ASK, str(LAUNCHER.parent)], capture_output=True, text=True, timeout=240)
    answers = [line for line in done.stdout.splitlines() if line.startswith("ANSWER")]
    assert answers, done.stderr[-2000:]
    answer: dict[str, dict[str, dict[str, object]]] = json.loads(answers[-1].removeprefix("ANSWER"))
    return answer


def test_the_vocabulary_is_exactly_that_of_the_parser(vllm: dict[str, dict[str, dict[str, object]]]) -> None:
    ours = {name for row in flags() for name in (row.name, *row.aliases)}
    assert ours == vllm["options"].keys() - NOT_OPTIONS_OF_A_CONFIG


def test_kinds_and_choices_are_those_of_the_parser(vllm: dict[str, dict[str, dict[str, object]]]) -> None:
    for row in flags():
        theirs = vllm["options"][row.name]
        assert (row.kind == "bool") == theirs["switch"], row.name
        assert (row.kind == "list") == theirs["many"], row.name
        assert list(row.choices) == (theirs["choices"] or []), row.name


def test_family_rows_name_parsers_that_exist(vllm: dict[str, dict[str, dict[str, object]]]) -> None:
    tools = vllm["options"]["tool-call-parser"]["metavar"]
    modes = vllm["options"]["tokenizer-mode"]["metavar"]
    assert len(vllm["reasoning"]) > 5
    for family in families():
        for setting in family.settings:
            if setting.flag == "reasoning-parser":
                assert setting.value in vllm["reasoning"], family.name
            if setting.flag == "tool-call-parser":
                assert str(setting.value) in str(tools).strip("{}").replace("}", ",").split(","), family.name
            if setting.flag == "tokenizer-mode":
                assert f"'{setting.value}'" in str(modes), family.name


@pytest.mark.timeout(300)
def test_vllm_parses_what_the_golden_plans_say() -> None:
    """Every golden `config.yaml` goes through vLLM's own `--config` reader."""
    engine = find_engine()
    golden = Path(__file__).parents[1] / "golden"
    files = sorted(str(path) for path in golden.glob("*/adapter/vllm/config.yaml"))
    assert len(files) > 5
    ask = (
        "import sys, json; sys.path.insert(0, sys.argv[1]); import launcher\n"
        "from vllm.entrypoints.cli.serve import ServeSubcommand\n"
        "from vllm.utils.argparse_utils import FlexibleArgumentParser\n"
        "parser = FlexibleArgumentParser()\n"
        "ServeSubcommand().subparser_init(parser.add_subparsers(required=False, dest='subparser'))\n"
        "for path in sys.argv[2:]:\n"
        "    read = parser.parse_args(['serve', 'MODEL', '--config', path])\n"
        "    print('ANSWER' + json.dumps([path, read.served_model_name, read.max_model_len, read.model_tag]))\n"
    )
    done = subprocess.run(
        [engine.python, "-c", ask, str(LAUNCHER.parent), *files], capture_output=True, text=True, timeout=240
    )
    answers = [json.loads(line[6:]) for line in done.stdout.splitlines() if line.startswith("ANSWER")]
    assert len(answers) == len(files), done.stderr[-2000:]
    for path, names, length, _ in answers:
        plan = json.loads((Path(path).parents[2] / "plan.json").read_text())
        planned = {setting["flag"]: setting["value"] for setting in plan["settings"]}
        assert names == planned["served-model-name"]
        assert length == planned["max-model-len"]
