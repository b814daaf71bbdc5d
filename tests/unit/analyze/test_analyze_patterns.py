"""Regular expressions of a checkpoint: a safe subset, matched as Python would, and never slowly."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoadapter.analyze.quantization.exclusions import unread_patterns
from autoadapter.analyze.quantization.patterns import UnreadableError, read_pattern

PATTERNS = [
    ".*lm_head", "lm_head", "^lm_head$", r"model\.layers\.\d+\.mlp\.gate$", ".*mlp.(gate|up)_proj", "(?:a|bc)*d",
    r".*\.(q|k|v)_proj$", "model.*", "[ab]+c", r"[^.]*\.norm", "x?y", r".*self_attn\.[qk]_proj", r"\w+\.w", "a|b.c", "",
]  # fmt: skip
NAMES = [
    "lm_head", "model.lm_head", "model.layers.12.mlp.gate", "model.layers.12.mlp.gate_proj", "model.layers.x.mlp.gate",
    "abcbcd", "model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.o_proj", "abac", "model.norm", "xy", "y", "",
    "lm_headless", "b.c", "bxc",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_same_as_python(pattern: str) -> None:
    automaton = read_pattern(pattern)
    assert [automaton.matches(name) for name in NAMES] == [re.match(pattern, name) is not None for name in NAMES]


@given(st.text("ab.*|()?+\\[]^$d0-", max_size=12), st.text("ab.0d-", max_size=12))
def test_any_pattern_is_python_s_or_refused(pattern: str, name: str) -> None:
    try:
        automaton = read_pattern(pattern)
    except UnreadableError:
        return
    assert automaton.matches(name) is (re.match(pattern, name) is not None)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a)\1",
        "(?=a)",
        "(?!lm_head).*",
        "a{2,3}",
        "a**",
        "(",
        ")",
        "[]",
        "[^]",
        "[b-a]",
        "[a",
        "*a",
        r"\b",
        "a" * 600,
        "(" * 40,
    ],
)
def test_what_is_left_out(pattern: str) -> None:
    with pytest.raises(UnreadableError):
        read_pattern(pattern)
    assert unread_patterns((f"re:{pattern}", "lm_head")) == (f"re:{pattern}",)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|a)*b", "(a|aa)+$", ".*.*.*.*.*=.*"])
def test_hostile_patterns_end_soon(pattern: str) -> None:
    assert not read_pattern(pattern).matches("a" * 2000 + "!")
