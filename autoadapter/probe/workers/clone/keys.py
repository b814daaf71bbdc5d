"""What the keys of a config mean: the table `probe/data/config_keys.yaml`, and the sizes that a config states."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from autoadapter.tables import read_table

DATA = Path(__file__).parents[2] / "data"


@dataclass(frozen=True)
class KeyTable:
    """Key → role."""

    roles: Mapping[str, str]
    patterns: tuple[tuple[re.Pattern[str], str], ...]
    parts: frozenset[str]
    """Keys of dictionaries that hold more of the same keys."""
    products: tuple[Mapping[str, str], ...]
    """`count` × `size` = `expand` × hidden size, where the checkpoint has it so."""

    def role(self, key: str) -> str | None:
        """The role of a key, None for one that keeps its value."""
        known = self.roles.get(key)
        return known or next((role for pattern, role in self.patterns if pattern.search(key)), None)


@cache
def key_table() -> KeyTable:
    """The table that comes with AutoAdapter."""
    document = read_table(DATA / "config_keys.yaml")
    return KeyTable(
        roles={key: role for role, keys in document["roles"].items() for key in keys},
        patterns=tuple((re.compile(pattern), role) for pattern, role in document["patterns"]),
        parts=frozenset(document["parts"]),
        products=tuple(document["products"]),
    )


def is_number(value: Any) -> bool:
    """Whether a value of a config is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def walk(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every key and value of a config and its parts; the config's own come first."""
    yield from config.items()
    for key, value in config.items():
        if key in key_table().parts and isinstance(value, Mapping):
            yield from walk(value)


class Stated:
    """Numbers that a config states, by role."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.keys: dict[str, Any] = {}
        self._roles: dict[str, Any] = {}
        table = key_table()
        for key, value in walk(config):
            self.keys.setdefault(key, value)
            role = table.role(key)
            if role and (is_number(value) or isinstance(value, list)):
                self._roles.setdefault(role, value)

    def number(self, role: str) -> float | None:
        """The first number under a role; of a list its largest."""
        value = self._roles.get(role)
        if isinstance(value, list):
            numbers = [item for item in value if is_number(item)]
            return max(numbers) if numbers else None
        return value

    def count(self, role: str, default: int = 0) -> int:
        """The same as a whole number."""
        return int(self.number(role) or default)
