"""vLLM's vocabulary: what is accepted, what is refused, and how that reads."""

import pytest

from autoadapter.artifacts import Belief, EngineSetting
from autoadapter.artifacts.serving_plan import SettingValue
from autoadapter.engine.flags import FlagRow, check, flag, flags
from autoadapter.errors import UserError


def setting(name: str, value: SettingValue) -> EngineSetting:
    return EngineSetting(flag=name, value=value, why="", source="", belief=Belief.USER)


def test_names_are_unique_and_spelt_as_on_the_command_line() -> None:
    names = [name for row in flags() for name in (row.name, *row.aliases)]
    assert len(names) == len(set(names)) > 300
    assert all(name == name.lower() and not name.startswith("-") and "_" not in name for name in names)


@pytest.mark.parametrize("text", ["max-model-len", "--max-model-len", "max_model_len", "MAX_MODEL_LEN"])
def test_people_write_options_in_many_ways(text: str) -> None:
    assert flag(text).name == "max-model-len"


def test_an_alias_is_the_same_option() -> None:
    assert flag("device-memory-utilization").name == "gpu-memory-utilization"


def test_an_unknown_option_suggests_the_nearest() -> None:
    with pytest.raises(UserError) as caught:
        flag("tensor-parallel")
    assert str(caught.value) == "vLLM has no option 'tensor-parallel'. Did you mean tensor-parallel-size?"


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("max-model-len", 4096, None),
        ("max-model-len", True, "--max-model-len takes int, not True"),
        ("max-model-len", "4096", "--max-model-len takes int, not '4096'"),
        ("enforce-eager", 1, "--enforce-eager takes bool, not 1"),
        ("gpu-memory-utilization", 1, None),
        ("served-model-name", ("a", "b"), None),
        ("served-model-name", "a", "--served-model-name takes list, not 'a'"),
        ("dtype", "int8", "--dtype takes one of auto, bfloat16, float, float16, float32, half, not 'int8'"),
        ("no-such-flag", 1, "--no-such-flag is not an option of vLLM"),
        (
            "served-model-name",
            ("--trust-remote-code",),
            "--served-model-name may not have a value that starts with a dash, which vLLM reads as an option: "
            "('--trust-remote-code',)",
        ),
    ],
)
def test_values(name: str, value: SettingValue, problem: str | None) -> None:
    assert check([setting(name, value)], "0.32.0") == (() if problem is None else (problem,))


@pytest.mark.parametrize(
    ("version", "problems"),
    [
        ("0.9.2", ("--new exists since vLLM 0.18.0",)),
        ("0.18.0", ()),
        ("0.29.5", ()),
        ("0.30.0", ("--new is gone since vLLM 0.30.0",)),
    ],
)
def test_versions_are_compared_as_numbers(version: str, problems: tuple[str, ...]) -> None:
    rows = {"new": FlagRow(name="new", kind="int", since="0.18.0", until="0.30.0")}
    assert check([setting("new", 1)], version, rows) == problems
