"""How a folder of recipes and a forced backend get from the user's options to the stages."""

from pathlib import Path

import pytest

from autoadapter.artifacts import ModelKind, ModelRef
from autoadapter.errors import UserError
from autoadapter.options import Options
from tests.unit.plan.sketches import llama_8b


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "r.yaml").write_text('model: {model_id: acme/M, min_vllm_version: "0.40.0"}\n')
    return tmp_path


def test_a_hub_model_is_looked_up(folder: Path) -> None:
    recipe = Options(recipes=folder).recipe_of(ModelRef(kind=ModelKind.HUB, location="acme/M"))
    assert recipe is not None and recipe.min_vllm_version == "0.40.0"
    assert Options().recipe_of(ModelRef(kind=ModelKind.HUB, location="acme/M")) is None


def test_a_folder_of_that_name_is_not_the_hub_model(folder: Path) -> None:
    assert Options(recipes=folder).recipe_of(ModelRef(kind=ModelKind.FOLDER, location="/models/acme/M")) is None


def test_the_profile_tells_of_the_recipe(folder: Path) -> None:
    profile = llama_8b()
    named = profile.model_copy(update={"ref": ModelRef(kind=ModelKind.HUB, location="acme/M")})
    codes = [finding.code for finding in Options(recipes=folder).with_recipe_findings(named).findings]
    assert codes == [*(finding.code for finding in named.findings), "recipe.min-version"]
    assert Options(recipes=folder).with_recipe_findings(profile).findings[-1].code == "recipe.none"
    assert Options().with_recipe_findings(profile) is profile


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist; a folder of recipes is needed"):
        Options(recipes=tmp_path / "absent").recipe_of(ModelRef(kind=ModelKind.HUB, location="acme/M"))


@pytest.mark.parametrize(
    ("arguments", "forced"),
    [({"model-impl": "transformers"}, True), ({"model_impl": "transformers"}, True), ({"model-impl": "vllm"}, False)],
)
def test_a_forced_backend(arguments: dict[str, str], forced: bool) -> None:
    assert (Options(engine_args=dict(arguments)).model_impl == "transformers") is forced
    assert Options().model_impl == "auto"
