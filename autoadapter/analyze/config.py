"""config.json with its many spellings: typed lookups that remember where a value was read."""

import json
from collections.abc import Mapping
from typing import NoReturn

from pydantic import JsonValue

from autoadapter.analyze.text import json_word, load_json
from autoadapter.errors import BrokenCheckpointError

NESTED = ("text_config", "llm_config", "language_config", "thinker_config", "language_model_config")
"""Keys that hold the language model's own config, outermost first; they may nest (`thinker_config.text_config`)."""
LARGEST = 2**63
"""Numbers beyond it are mistakes: they would overflow in whoever reads the profile. NaN compares as beyond, too."""
IDENTITY = ("hidden_size", "n_embd", "d_model", "num_hidden_layers", "num_attention_heads", "vocab_size", "model_type")


class Config:
    """A JSON object of a model, asked by aliases. The first key that is present and not null answers."""

    def __init__(
        self, data: Mapping[str, JsonValue], where: str, file: str, spelled: Mapping[str, str] | None = None
    ) -> None:
        """Wrap a JSON object.

        Args:
            data: the object.
            where: how findings name it: `config.json`, `config.json:text_config`.
            file: how errors name the file it came from.
            spelled: key → how the file itself spells it, where a translation lies between.
        """
        self.data = data
        self.where = where
        self.file = file
        self._spelled = spelled or {}

    def get(self, key: str) -> JsonValue:
        """The value at a dotted key, None when absent."""
        value: JsonValue = dict(self.data)
        for part in key.split("."):
            if not isinstance(value, dict):
                return None
            value = value.get(part)
        return value

    def found(self, *keys: str) -> str | None:
        """The first of `keys` that is present and not null."""
        return next((key for key in keys if self.get(key) is not None), None)

    def source(self, *keys: str) -> str:
        """Where the answer to `keys` was read, or that it is the engine's default."""
        key = self.found(*keys)
        if key is None:
            return f"{self.where} (no {keys[0]})"
        return f"{self.where}{'.' if ':' in self.where else ':'}{self._spelled.get(key, key)}"

    def number(self, *keys: str) -> float | None:
        """The first present value as a finite number.

        Raises:
            BrokenCheckpointError: it is something else.
        """
        key = self.found(*keys)
        value = self.get(key) if key else None
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not -LARGEST < value < LARGEST:
            self._wrong(str(key), value, "a number")
        return value

    def integer(self, *keys: str) -> int | None:
        """The first present value as a whole number that is not negative; `16.0` counts, lists give their maximum.

        Raises:
            BrokenCheckpointError: it is something else.
        """
        key = self.found(*keys)
        value = self.get(key) if key else None
        if isinstance(value, list) and value and all(type(item) is int for item in value):
            counts = [item for item in value if isinstance(item, int)]
            value = max(counts) if min(counts) >= 0 else min(counts)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not _is_count(value):
            self._wrong(str(key), value, "a whole number")
        return int(value)

    def integers(self, *keys: str) -> tuple[int, ...] | None:
        """The first present value when it is a list of whole numbers, else None."""
        value = self.get(self.found(*keys) or "")
        if not isinstance(value, list):
            return None
        items = tuple(int(item) for item in value if isinstance(item, int))
        return items if len(items) == len(value) else None

    def text(self, *keys: str) -> str | None:
        """The first present value when it is text, else None."""
        value = self.get(self.found(*keys) or "")
        return value if isinstance(value, str) else None

    def texts(self, *keys: str) -> tuple[str, ...] | None:
        """The first present value when it is a list of texts, else None."""
        value = self.get(self.found(*keys) or "")
        if not isinstance(value, list):
            return None
        items = tuple(item for item in value if isinstance(item, str))
        return items if len(items) == len(value) else None

    def flag(self, *keys: str) -> bool | None:
        """The first present value when it is a boolean, else None."""
        value = self.get(self.found(*keys) or "")
        return value if isinstance(value, bool) else None

    def objects(self, key: str) -> tuple[dict[str, JsonValue], ...]:
        """The objects in the list or object at a key, in order; empty when absent."""
        value = self.get(key)
        items = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
        return tuple(item for item in items if isinstance(item, dict))

    def child(self, key: str) -> "Config | None":
        """The object at a key, None when absent or not an object."""
        value = self.get(key)
        return Config(value, self.source(key), self.file) if isinstance(value, dict) else None

    def _wrong(self, key: str, value: JsonValue, wanted: str) -> NoReturn:
        shown = json_word(value) if isinstance(value, dict | list) else json.dumps(value)[:60]
        raise BrokenCheckpointError(self.file, f"{key} is {shown}, not {wanted}", hint=f"Mend {key} in the file.")


def _is_count(value: float) -> bool:
    return 0 <= value < LARGEST and value == int(value)


def parse_object(data: bytes, file: str) -> dict[str, JsonValue]:
    """A JSON file that holds one object.

    Raises:
        BrokenCheckpointError: it does not; the position of the first fault is named.
    """
    document = load_json(data, file)
    if not isinstance(document, dict):
        raise BrokenCheckpointError(file, f"holds {json_word(document)} instead of an object")
    return document


def language_config(root: Config) -> Config:
    """The config of record for the language model: nested ones win over the wrapper's."""
    config, inner = root, _inner(root)
    while inner is not None:
        config, inner = inner, _inner(inner)
    return config


def _inner(config: Config) -> Config | None:
    children = (config.child(key) for key in NESTED)
    return next((inner for inner in children if inner is not None and inner.found(*IDENTITY, *NESTED)), None)
