"""How rendered code tells kinds of layers apart: conditions on the config, from `LayerPattern`."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from autoadapter.artifacts.decoder import DecoderSpec, LayerRule, Value
from autoadapter.generate.plugin.expressions import expression

BINARY = {"first": {"head": "<", "tail": ">="}, "every": {"hit": "==", "miss": "!="}}
KIND = "layer_kind(config, layer_idx)"


class Choices:
    """Picks values by the kind of the layer inside one rendered class, and says what must be computed first."""

    def __init__(self, spec: DecoderSpec) -> None:
        self._spec = spec
        self._conditions: dict[str, str] = {}

    @property
    def lines(self) -> tuple[str, ...]:
        """Assignments for the start of `__init__`: the layer's index and the conditions used."""
        if not self._conditions:
            return ()
        assignments = (f"{name} = {condition}" for name, condition in self._conditions.items())
        return ("layer_idx = extract_layer_index(prefix)", *assignments)

    @property
    def uses_kind_names(self) -> bool:
        """Whether the module's function `layer_kind` is called."""
        return any(KIND in condition for condition in self._conditions.values())

    def pick(self, texts: Mapping[int, str]) -> str:
        """An expression that has each kind's text: `config.sliding_window if is_sliding else None`."""
        groups: dict[str, list[int]] = {}
        for kind, text in texts.items():
            groups.setdefault(text, []).append(kind)
        ordered = sorted(groups, key=lambda text: text == "None")
        if sorted(ordered) == ["False", "True"]:
            return self.condition(groups["True"], texts)
        *heads, last = ordered
        return "".join(f"{text} if {self.condition(groups[text], texts)} else " for text in heads) + last

    def pick_value(self, values: Mapping[int, Value | None], text: Callable[[Value], str] = expression) -> str:
        """As `pick`, of numbers."""
        return self.pick({kind: "None" if value is None else text(value) for kind, value in values.items()})

    def condition(self, kinds: Iterable[int], among: Iterable[int]) -> str:
        """The name of a variable that is true in layers of `kinds`, where only those of `among` occur."""
        wanted = set(kinds)
        rest = set(among) - wanted
        kinds_name = f"is_{self._own_words(wanted, rest)}"
        label, condition = self._by_rule(wanted, rest) or (None, self._by_kind_name(wanted))
        short = f"is_{_word(label)}" if label else kinds_name
        name = short if self._conditions.get(short, condition) == condition else kinds_name
        self._conditions[name] = condition
        return name

    def _own_words(self, wanted: set[int], rest: set[int]) -> str:
        """What the names of some kinds share and those of the others lack: `dense`; else all their names."""
        names = [_word(self._spec.kinds[kind].name) for kind in sorted(wanted)]
        others = {word for kind in rest for word in _word(self._spec.kinds[kind].name).split("_")}
        shared = [word for word in names[0].split("_") if all(word in name.split("_") for name in names)]
        own = [word for word in shared if word not in others]
        return "_".join(own) or "_or_".join(names)

    def _by_rule(self, wanted: set[int], rest: set[int]) -> tuple[str | None, str] | None:
        """The label, where a word of the config tells the kinds apart, and the condition."""
        pattern = self._spec.pattern
        for number, rule in enumerate(pattern.rules):
            labels = {row[number] for row, kind in pattern.table if kind in wanted}
            others = {row[number] for row, kind in pattern.table if kind in rest}
            if labels and not labels & others:
                condition = rule_condition(rule, sorted(labels), self._spec.config_seen)
                is_word = rule.rule == "list" and len(labels) == 1 and f'"{min(labels)}"' in condition
                return (min(labels) if is_word else None), condition
        return None

    def _by_kind_name(self, wanted: set[int]) -> str:
        names = [self._spec.kinds[kind].name for kind in sorted(wanted)]
        return f'{KIND} == "{names[0]}"' if len(names) == 1 else f"{KIND} in {_tuple(names)}"


def rule_condition(rule: LayerRule, labels: list[str], config: dict[str, Any]) -> str:
    """Whether layer `layer_idx` has one of the labels under a rule."""
    if rule.rule == "list":
        literals = [_stated(rule, label, config) for label in labels]
        found = label_expression(rule)
        if literals == ["True"]:
            return found
        return f"{found} == {literals[0]}" if len(literals) == 1 else f"{found} in ({', '.join(literals)})"
    bound = _bound(rule)
    sign = BINARY[rule.rule][labels[0]]
    if rule.rule == "first":
        return f"layer_idx {sign} {bound}"
    index = f"(layer_idx + {rule.offset})" if rule.offset else "layer_idx"
    return f"{index} % {bound} {sign} 0"


def label_expression(rule: LayerRule) -> str:
    """What the config says of layer `layer_idx` by a rule: its label, or what has the label as text."""
    if rule.rule == "list":
        return f"{_bound(rule)}[layer_idx]"
    yes, no = BINARY[rule.rule]
    return f'"{yes}" if {rule_condition(rule, [yes], {})} else "{no}"'


def _bound(rule: LayerRule) -> str:
    return expression(Value(number=rule.number or 0, key=rule.key))


def _stated(rule: LayerRule, label: str, config: dict[str, Any]) -> str:
    """The label as a literal of the type that the config's list holds."""
    stated: Any = config
    for part in (rule.key or "").split("."):
        stated = stated[part]
    found = next((item for item in stated if str(item) == label), label)
    return f'"{found}"' if isinstance(found, str) else repr(found)


def _tuple(names: Iterable[str]) -> str:
    return "(" + ", ".join(f'"{name}"' for name in names) + ")"


def _word(name: str) -> str:
    return re.sub(r"\W+", "_", name)
