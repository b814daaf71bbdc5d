"""vLLM's public recipes as priors: matched by Hub id, flags and parsers alone, never memory."""

from pathlib import Path
from textwrap import dedent

import pytest

from autoadapter.artifacts import Level
from autoadapter.errors import UserError
from autoadapter.families import Recipe, load_recipes, recipe_findings, recipe_for

RECIPE = """
meta: {title: Thinker, hardware: {h200: verified}}
model:
  model_id: "acme/Thinker-30B"
  min_vllm_version: "0.28.0"
  architecture: moe
  context_length: 262144
  base_args:
    - "--trust-remote-code"
    - "--compilation-config"
    - '{"mode":3}'
    - "--no-enable-prefix-caching"
    - "--invented-option"
    - "yes"
  base_env: {VLLM_USE_DEEP_GEMM: "0", LD_PRELOAD: /tmp/evil.so}
features:
  tool_calling:
    args: ["--enable-auto-tool-choice", "--tool-call-parser", "qwen3_coder", "--chat-template", "examples/x.jinja"]
  reasoning: {args: ["--reasoning-parser=qwen3"]}
  spec_decoding: {args: ["--speculative-config", '{"method":"mtp"}']}
opt_in_features: [spec_decoding]
variants:
  default: {precision: bf16, vram_minimum_gb: 65, extra_args: ["--max-num-seqs", "8"]}
  fp8:
    model_id: "acme/Thinker-30B-FP8"
    vram_minimum_gb: 33
    tp: 2
    min_vllm_version: "0.30.0"
    extra_args: ["--async-scheduling", "--gpu-memory-utilization", "0.92"]
hardware_overrides:
  hopper: {extra_args: ["--attention-backend", "FLASHINFER", "--max-num-batched-tokens", "32768"]}
strategy_overrides: {single_node_tp: {tp: 4}}
guide: |
  Also see acme/Thinker-4B.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "models" / "acme"
    path.mkdir(parents=True)
    (path / "Thinker-30B.yaml").write_text(dedent(RECIPE))
    (tmp_path / "strategies.yaml").write_text("single_node_tp: {tp: all}\n")
    return tmp_path


def found(folder: Path, model_id: str = "acme/Thinker-30B") -> Recipe:
    recipe = recipe_for(folder, model_id)
    assert recipe is not None
    return recipe


def values(recipe: Recipe, capability: str | None = None) -> dict[str, object]:
    return {row.flag: row.value for row in recipe.settings_on(capability)}


def test_flags_and_parsers_with_their_place(folder: Path) -> None:
    recipe = found(folder)
    assert values(recipe) == {
        "compilation-config": '{"mode":3}',
        "enable-prefix-caching": False,
        "enable-auto-tool-choice": True,
        "tool-call-parser": "qwen3_coder",
        "reasoning-parser": "qwen3",
    }
    keys = {row.flag: row.key for row in recipe.settings}
    assert keys["tool-call-parser"] == "features.tool_calling.args" and keys["compilation-config"] == "model.base_args"
    assert recipe.file == "models/acme/Thinker-30B.yaml"


def test_a_variant_that_is_a_repository_of_its_own(folder: Path) -> None:
    recipe = found(folder, "acme/Thinker-30B-FP8")
    assert values(recipe)["async-scheduling"] is True and values(recipe)["reasoning-parser"] == "qwen3"
    assert recipe.min_vllm_version == "0.30.0"


@pytest.mark.parametrize("name", ["acme/thinker-30b", "acme/Thinker-4B", "acme/Thinker-30B-Instruct", "Thinker-30B"])
def test_nothing_but_the_very_id(folder: Path, name: str) -> None:
    assert recipe_for(folder, name) is None


def test_never_memory(folder: Path) -> None:
    for name in ("acme/Thinker-30B", "acme/Thinker-30B-FP8"):
        recipe = found(folder, name)
        planned = {"max-num-seqs", "max-num-batched-tokens", "gpu-memory-utilization", "speculative-config"}
        assert not planned & set(values(recipe, "9.0"))
        told = " ".join(recipe.ignored)
        assert "vram_minimum_gb: AutoAdapter computes memory and layout itself" in told
    assert "variants.fp8.tp" in told and "--gpu-memory-utilization: AutoAdapter plans it itself" in told


def test_foreign_code_and_foreign_files_are_left_to_the_user(folder: Path) -> None:
    recipe = found(folder)
    assert not {"trust-remote-code", "chat-template"} & set(values(recipe))
    told = " ".join(recipe.ignored)
    assert "--trust-remote-code: only your own --trust-remote-code allows it" in told
    assert "--chat-template: it names a file" in told


def test_environment_of_vllm_alone(folder: Path) -> None:
    recipe = found(folder)
    assert [(row.name, row.value) for row in recipe.env] == [("VLLM_USE_DEEP_GEMM", "0")]
    assert any("LD_PRELOAD" in text for text in recipe.ignored)


def test_hardware_of_the_plan_decides(folder: Path) -> None:
    recipe = found(folder)
    assert values(recipe, "9.0")["attention-backend"] == "FLASHINFER"
    assert "attention-backend" not in values(recipe, "8.9") and "attention-backend" not in values(recipe, None)


def test_unknown_arguments_are_dropped_and_told(folder: Path) -> None:
    recipe = found(folder)
    assert recipe.dropped == ("model.base_args: --invented-option is not an option of vLLM",)
    findings = {finding.code: finding for finding in recipe_findings(recipe, "0.32.0")}
    assert (
        findings["recipe.dropped"].level is Level.WARNING and "--invented-option" in findings["recipe.dropped"].message
    )
    assert findings["recipe.ignored"].level is Level.INFO
    assert findings["recipe.offers"].message.endswith("spec_decoding.")
    assert "recipe.min-version" not in findings


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("['--max-cudagraph-capture-size', 'many']", "takes int"),
        ("['--reasoning-parser']", "takes str"),
        ("['--reasoning-parser', 'a', 'b']", "takes str"),
        ("['--enable-prefix-caching', 'perhaps']", "takes bool"),
    ],
)
def test_values_of_another_kind_are_dropped(tmp_path: Path, words: str, problem: str) -> None:
    (tmp_path / "r.yaml").write_text(f"model: {{model_id: acme/M, base_args: {words}}}\n")
    recipe = found(tmp_path, "acme/M")
    assert recipe.settings == () and problem in recipe.dropped[0]


def test_minimum_version_is_a_finding(folder: Path) -> None:
    codes = {finding.code: finding for finding in recipe_findings(found(folder), "0.27.1")}
    minimum = codes["recipe.min-version"]
    assert minimum.level is Level.WARNING and "asks for vLLM 0.28.0 or newer; the target is 0.27.1" in minimum.message
    assert minimum.source == "models/acme/Thinker-30B.yaml: min_vllm_version"


def test_no_recipe_is_told(folder: Path) -> None:
    (finding,) = recipe_findings(None, "0.32.0", folder)
    assert (finding.code, finding.level, finding.source) == ("recipe.none", Level.INFO, str(folder))


def test_all_recipes_of_a_folder(folder: Path) -> None:
    assert [recipe.model_id for recipe in load_recipes(folder)] == ["acme/Thinker-30B", "acme/Thinker-30B-FP8"]


def test_malformed_yaml_is_one_clear_error(folder: Path) -> None:
    (folder / "broken.yaml").write_text('model:\n  model_id: "acme/Broken"\n  base_args: ["--a\n')
    with pytest.raises(UserError, match=r"broken\.yaml, line \d+ is not YAML: .+\."):
        load_recipes(folder)
    assert recipe_for(folder, "acme/Thinker-30B") is not None, "a broken file of another model stands in no one's way"


@pytest.mark.parametrize(
    "text",
    [
        "model: {model_id: acme/M, base_args: --trust-remote-code}",
        "model: {model_id: acme/M, base_args: [{a: b}]}",
        "model: {model_id: acme/M}\nvariants: [default]",
        "model: {model_id: acme/M}\nfeatures: {reasoning: [x]}",
        "model: {model_id: acme/M}\nvariants: {x: {model_id: 7}}",
    ],
)
def test_another_shape_is_one_clear_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "r.yaml").write_text(text)
    with pytest.raises(UserError, match="is not shaped like a recipe"):
        load_recipes(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "- a\n- b\n", "model: text", "model: {model_id: 7}", "!!python/object:os.system {}"]
)
def test_files_that_hold_no_recipe(tmp_path: Path, text: str) -> None:
    (tmp_path / "r.yaml").write_text(text)
    if text.startswith("!!"):
        with pytest.raises(UserError, match="is not YAML"):
            load_recipes(tmp_path)
    else:
        assert load_recipes(tmp_path) == ()


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist; a folder of recipes is needed"):
        load_recipes(tmp_path / "absent")
