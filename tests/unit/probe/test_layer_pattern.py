"""Rules that tell layers apart, found among config keys."""

from typing import Any

import pytest

from autoadapter.artifacts.decoder import LayerRule
from autoadapter.probe.workers.fit.pattern import fit_pattern, label

CASES: list[tuple[dict[str, Any], tuple[int, ...], tuple[LayerRule, ...]]] = [
    ({"hidden_size": 64}, (0, 0, 0, 0), ()),
    (
        {"layer_types": ["sliding", "full", "sliding", "full"], "sliding_window": 8},
        (0, 1, 0, 1),
        (LayerRule(rule="list", key="layer_types"),),
    ),
    ({"first_k_dense_replace": 1, "heads": 2}, (0, 1, 1, 1), (LayerRule(rule="first", key="first_k_dense_replace"),)),
    (
        {"full_attention_interval": 4},
        (0, 0, 0, 1, 0, 0, 0, 1),
        (LayerRule(rule="every", key="full_attention_interval", offset=1),),
    ),
    ({"mlp_only_layers": [1, 2]}, (0, 1, 1, 0), (LayerRule(rule="member", key="mlp_only_layers"),)),
    (
        {"layer_types": ["a", "b", "a", "b"], "first_k_dense_replace": 1},
        (0, 1, 2, 1),
        (LayerRule(rule="list", key="layer_types"), LayerRule(rule="first", key="first_k_dense_replace")),
    ),
    ({"types": ["a", "b", "c"], "version": "1.2"}, (0, 1, 2), (LayerRule(rule="list", key="types"),)),
    ({"sizes": [3, 5, 7], "version": "abc"}, (0, 1, 2), ()),
    ({"hidden_size": 64}, (0, 1, 0, 1), (LayerRule(rule="every", number=2, offset=0),)),
    ({"hidden_size": 64}, (0, 1, 1, 0, 1), ()),
]


@pytest.mark.parametrize(("config", "kinds", "rules"), CASES)
def test_rules(config: dict[str, Any], kinds: tuple[int, ...], rules: tuple[LayerRule, ...]) -> None:
    """The rule is found, and its table gives back the kinds."""
    pattern = fit_pattern(config, kinds)
    assert pattern.rules == rules
    assert pattern.kinds == kinds
    table = dict(pattern.table)
    if rules:
        assert tuple(table[tuple(label(config, rule, i) for rule in rules)] for i in range(len(kinds))) == kinds
