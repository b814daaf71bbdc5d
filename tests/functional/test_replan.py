"""`--engine-arg` and `--scheme` after planning: another plan beside the first, with everything the user had said."""

import json
from pathlib import Path

from tests.functional.conftest import Command


def test_what_the_user_said_survives_a_new_plan(autoadapter: Command, tiny_model: Path, tmp_path: Path) -> None:
    said = ("--served-name", "tiny", "--max-model-len", 256, "--engine-arg", "seed=7", "--scheme", "as_is")
    for words in (("analyze", tiny_model), ("generate", *said), ("optimize",)):
        answer = autoadapter(*words, "-w", "ws")
        assert answer.code == 0, answer.err
    first = (tmp_path / "ws" / "current-plan").read_text().strip()
    answer = autoadapter("deploy", "-w", "ws", "--allow-untested", "--engine-arg", "max-num-seqs=4", "--json")
    assert answer.code == 0, answer.err
    second = (tmp_path / "ws" / "current-plan").read_text().strip()
    assert second != first
    plan = json.loads((tmp_path / "ws" / "plans" / second / "plan.json").read_text())
    settings = {row["flag"]: row["value"] for row in plan["settings"] if row["belief"] == "user flag"}
    assert settings == {"served-model-name": ["tiny"], "max-model-len": 256, "seed": 7, "max-num-seqs": 4}
    assert plan["scheme"]["name"] == "as_is"
    assert json.loads(answer.out)["plan_digest"].startswith(second)


def test_a_changed_plan_is_not_taken_for_a_tested_one(autoadapter: Command, tiny_model: Path) -> None:
    for words in (("analyze", tiny_model), ("generate", "--scheme", "as_is"), ("optimize",)):
        autoadapter(*words, "-w", "ws")
    answer = autoadapter("deploy", "-w", "ws", "--engine-arg", "max-num-seqs=4")
    assert answer.code == 3
