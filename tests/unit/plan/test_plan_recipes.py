"""A recipe's options in a plan: below the user, above the family, within the target's vocabulary."""

from pathlib import Path

import pytest

from autoadapter.artifacts import Belief, Strategy
from autoadapter.families import Recipe, recipe_for
from autoadapter.plan import PlanRequest, make_plan
from tests.unit.plan.sketches import gpu, llama_8b

TEXT = """
model:
  model_id: meta-llama/Llama-3.1-8B-Instruct
  min_vllm_version: "0.40.0"
  base_args: ["--async-scheduling", "--tensor-parallel-size", "8", "--reasoning-parser", "granite"]
  base_env: {VLLM_USE_DEEP_GEMM: "0", VLLM_NO_USAGE_STATS: "0"}
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    (tmp_path / "r.yaml").write_text(TEXT)
    found = recipe_for(tmp_path, "meta-llama/Llama-3.1-8B-Instruct")
    assert found is not None
    return found


def request(recipe: Recipe | None, **more: object) -> PlanRequest:
    return PlanRequest.model_validate(
        {"strategy": Strategy.BALANCED, "hardware": gpu("h200"), "vllm_version": "0.32.0", "recipe": recipe} | more
    )


def test_options_come_with_file_and_key(recipe: Recipe) -> None:
    plan = make_plan(llama_8b(), request(recipe))
    row = next(row for row in plan.settings if row.flag == "async-scheduling")
    assert (row.value, row.belief, row.source) == (True, Belief.FAMILY, "recipe r.yaml: model.base_args")
    assert not any(row.flag == "async-scheduling" for row in make_plan(llama_8b(), request(None)).settings)


def test_layout_and_memory_stay_the_planners(recipe: Recipe) -> None:
    with_recipe, without = make_plan(llama_8b(), request(recipe)), make_plan(llama_8b(), request(None))
    assert with_recipe.memory == without.memory


def test_the_user_has_the_last_word(recipe: Recipe) -> None:
    plan = make_plan(llama_8b(), request(recipe, engine_args={"reasoning-parser": "qwen3"}))
    row = next(row for row in plan.settings if row.flag == "reasoning-parser")
    assert (row.value, row.belief) == ("qwen3", Belief.USER)


def test_environment_adds_and_never_replaces(recipe: Recipe) -> None:
    env = {row.name: row.value for row in make_plan(llama_8b(), request(recipe)).env}
    assert env["VLLM_USE_DEEP_GEMM"] == "0" and env["VLLM_NO_USAGE_STATS"] == "1"


def test_what_the_recipe_asks_for_is_among_the_findings(recipe: Recipe) -> None:
    codes = {finding.code for finding in make_plan(llama_8b(), request(recipe)).findings}
    assert {"recipe.min-version", "recipe.ignored"} <= codes
