"""Every family row: known option, accepted value, a why and a source."""

import pytest

from autoadapter.artifacts import Belief, EngineSetting
from autoadapter.engine.flags import check
from autoadapter.engine.target import DEFAULT_VLLM_VERSION
from autoadapter.families import FamilySetting, families, settings_for
from autoadapter.families.loader import Family

ROWS = [(family.name, setting) for family in families() for setting in family.settings]


@pytest.mark.parametrize(("family", "row"), ROWS, ids=[f"{name}-{row.flag}" for name, row in ROWS])
def test_each_row_is_in_vllms_vocabulary(family: str, row: FamilySetting) -> None:
    setting = EngineSetting(flag=row.flag, value=row.value, why=row.why, source=row.source, belief=Belief.FAMILY)
    assert check([setting], DEFAULT_VLLM_VERSION) == ()
    assert row.why
    assert row.source


@pytest.mark.parametrize("family", families(), ids=lambda family: family.name)
def test_each_family_matches_something_and_a_tool_parser_is_switched_on(family: Family) -> None:
    assert family.match.architectures or family.match.model_types
    flags = {setting.flag for setting in family.settings}
    assert ("tool-call-parser" in flags) == ("enable-auto-tool-choice" in flags)


def test_a_model_matches_by_what_its_config_says() -> None:
    assert {name for name, _ in settings_for("Qwen3ForCausalLM", "qwen3")} == {"qwen3"}
    assert {name for name, _ in settings_for("DeepseekV3ForCausalLM", "kimi_k2")} == {"kimi_k2"}
    assert settings_for("LlamaForCausalLM", "llama") == ()


def test_no_model_gets_one_option_from_two_families() -> None:
    for family in families():
        for architecture in family.match.architectures or ("-",):
            for model_type in family.match.model_types or ("-",):
                flags = [row.flag for _, row in settings_for(architecture, model_type)]
                assert len(flags) == len(set(flags))
