"""How the config tells which layer is of which kind."""

import json
from collections.abc import Iterator
from itertools import combinations
from typing import Any

from autoadapter.artifacts.decoder import LayerPattern, LayerRule
from autoadapter.probe.workers.fit.binding import stated

FIRST_WORDS = ("first", "dense", "start")
"""In keys that count leading layers."""
EVERY_WORDS = ("interval", "step", "freq", "period", "every", "pattern", "stride")
"""In keys that state a rhythm."""
MOST_RULES = 2


def fit_pattern(config: Any, kinds: tuple[int, ...]) -> LayerPattern:
    """The rules whose labels tell the kinds apart, the plainest that do.

    Args:
        config: the reference's text config.
        kinds: of each layer.
    """
    if len(set(kinds)) == 1:
        return LayerPattern(kinds=kinds)
    keyed = list(_keyed(config, len(kinds)))
    choices = [(rule,) for rule in keyed]
    choices += [(rule,) for rule in _unkeyed(len(kinds))]
    choices += list(combinations(keyed, MOST_RULES))
    for rules in choices:
        table = _table(config, rules, kinds)
        if table is not None:
            return LayerPattern(kinds=kinds, rules=rules, table=tuple(table.items()))
    return LayerPattern(kinds=kinds)


def label(config: Any, rule: LayerRule, layer: int) -> str:
    """What a rule says of a layer.

    Raises:
        IndexError: a list of the config is shorter than the decoder.
    """
    value = rule.number if rule.key is None else stated(config, rule.key)
    if rule.rule == "list":
        return str(value[layer])
    if rule.rule == "member":
        return "in" if layer in value else "out"
    if rule.rule == "first":
        return "head" if layer < value else "tail"
    return "hit" if (layer + rule.offset) % value == 0 else "miss"


def _table(config: Any, rules: tuple[LayerRule, ...], kinds: tuple[int, ...]) -> dict[tuple[str, ...], int] | None:
    table: dict[tuple[str, ...], int] = {}
    for layer, kind in enumerate(kinds):
        labels = tuple(label(config, rule, layer) for rule in rules)
        if table.setdefault(labels, kind) != kind:
            return None
    return table


def _keyed(config: Any, layers: int) -> Iterator[LayerRule]:
    """Lists first: they say most."""
    entries = list(_entries(config))
    yield from (LayerRule(rule="list", key=key) for key, value in entries if _is_labels(value, layers))
    for key, value in entries:
        if _is_count(value) and 0 < value < layers and any(word in key for word in FIRST_WORDS):
            yield LayerRule(rule="first", key=key)
    for key, value in entries:
        if _is_count(value) and 1 < value <= layers and any(word in key for word in EVERY_WORDS):
            yield from (LayerRule(rule="every", key=key, offset=offset) for offset in range(value))
    yield from (LayerRule(rule="member", key=key) for key, value in entries if _is_layers(value, layers))


def _unkeyed(layers: int) -> Iterator[LayerRule]:
    """Rhythms seen at least twice; a number of leading layers that no key states could be anything."""
    for number in range(2, layers // 2 + 1):
        yield from (LayerRule(rule="every", number=number, offset=offset) for offset in range(number))


def _entries(config: Any) -> Iterator[tuple[str, Any]]:
    """Keys and values, those of dicts in it by dotted path."""
    document = config if isinstance(config, dict) else config.to_dict()
    for key, value in document.items():
        if isinstance(value, dict):
            yield from ((f"{key}.{inner}", below) for inner, below in value.items())
        else:
            yield key, value


def _is_labels(value: Any, layers: int) -> bool:
    """A word for each layer, or numbers that recur: sizes of all layers are no labels."""
    if not isinstance(value, list | tuple) or len(value) < layers:
        return False
    labels = list(value)[:layers]
    distinct = len({json.dumps(item, default=str) for item in labels})
    if all(isinstance(item, str) for item in labels):
        return distinct > 1
    return all(isinstance(item, int) or item is None for item in labels) and 1 < distinct < max(layers, 3)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_layers(value: Any, layers: int) -> bool:
    return (
        isinstance(value, list | tuple)
        and 0 < len(value) < layers
        and all(_is_count(item) and 0 <= item < layers for item in value)
    )
