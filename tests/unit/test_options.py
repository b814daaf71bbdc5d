"""What a user may choose, and what is said of a wrong choice."""

import pytest

from autoadapter.artifacts import Strategy, Target
from autoadapter.errors import UserError
from autoadapter.options import choose, parse_pairs


@pytest.mark.parametrize("text", ["max_perf", "MAX_PERF", "max-perf", " max_perf "])
def test_spellings_of_a_strategy(text: str) -> None:
    assert choose(Strategy, text, "strategy") is Strategy.MAX_PERF


def test_unknown_strategy() -> None:
    with pytest.raises(UserError) as caught:
        choose(Strategy, "balance", "strategy")
    assert str(caught.value) == "Unknown strategy 'balance'. Did you mean balanced?"
    assert caught.value.hint == "Known: max_perf, balanced, min_mem"
    assert caught.value.exit_code == 2


def test_unknown_target_without_a_neighbour() -> None:
    with pytest.raises(UserError) as caught:
        choose(Target, "moon", "target")
    assert str(caught.value) == "Unknown target 'moon'."


def test_engine_args_are_typed() -> None:
    pairs = ("max-num-seqs=32", "--enforce-eager=true", "gpu-memory-utilization=0.8", "dtype=bfloat16", "x=a=b", "y=")
    assert parse_pairs(pairs) == {
        "max-num-seqs": 32,
        "enforce-eager": True,
        "gpu-memory-utilization": 0.8,
        "dtype": "bfloat16",
        "x": "a=b",
        "y": "",
    }


@pytest.mark.parametrize("pair", ["max-num-seqs", "=3", ""])
def test_an_engine_arg_without_a_value(pair: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_pairs((pair,))
    assert str(caught.value) == f"--engine-arg {pair!r} is not NAME=VALUE."
