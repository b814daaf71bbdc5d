"""config.json with its many spellings: typed lookups that remember where a value was read."""

import json
from collections.abc import Mapping
from functools import cached_property
from typing import NoReturn

from pydantic import JsonValue

from autoadapter.analyze.class_defaults import ClassDefaults, class_defaults
from autoadapter.analyze.text import json_word, load_json
from autoadapter.errors import BrokenCheckpointError
from autoadapter.once import once_each

NESTED = (
    "text_config", "llm_config", "language_config", "thinker_config", "language_model_config", "lm_config", "llm",
    "text_model", "decoder", "transf_decoder.config_dict",
)  # fmt: skip
"""Keys that hold the language model's own config, outermost first; they may nest (`thinker_config.text_config`)."""
LARGEST = 2**63
"""Numbers beyond it are mistakes: they would overflow in whoever reads the profile. NaN compares as beyond, too."""
IDENTITY = ("hidden_size", "n_embd", "d_model", "num_hidden_layers", "num_attention_heads", "vocab_size", "model_type")


class Config:
    """A JSON object of a model, asked by aliases. The first key that is present and not null answers.

    A language model's config knows its class: what the file leaves out, the class's default answers, unless the file
    says null or states the value by another name of the class.
    """

    def __init__(
        self,
        data: Mapping[str, JsonValue],
        where: str,
        file: str,
        spelled: Mapping[str, str] | None = None,
        family: tuple[str, ...] = (),
    ) -> None:
        """Wrap a JSON object.

        Args:
            data: the object.
            where: how findings name it: `config.json`, `config.json:text_config`.
            file: how errors name the file it came from.
            spelled: key → how the file itself spells it, where a translation lies between.
            family: for a language model's config its model type and those around it, innermost first.
        """
        self.data = data
        self.where = where
        self.file = file
        self.family = family
        self._spelled = spelled or {}

    @cached_property
    def defaults(self) -> ClassDefaults | None:
        """What the class of a language model's config says where the file is silent."""
        return class_defaults(self.family[0], self.family[1:]) if self.family else None

    @cached_property
    def stated(self) -> "Config":
        """The same without the class's defaults: what the file says itself."""
        return Config(self.data, self.where, self.file, self._spelled) if self.family else self

    def of_family(self, *family: str) -> "Config":
        """The same with the defaults of a class behind it."""
        return Config(self.data, self.where, self.file, self._spelled, family)

    def with_values(self, values: Mapping[str, JsonValue]) -> "Config":
        """The same with these values in place of its own."""
        return Config({**self.data, **values}, self.where, self.file, self._spelled, self.family)

    def get(self, key: str) -> JsonValue:
        """The value at a dotted key, None when absent."""
        value = self._said(key)
        return self._default(key) if value is None else value

    def _said(self, key: str) -> JsonValue:
        if "." not in key:
            return self.data.get(key)
        value: JsonValue = dict(self.data)
        for part in key.split("."):
            if not isinstance(value, dict):
                return None
            value = value.get(part)
        return value

    def _default(self, key: str) -> JsonValue:
        if not self.family or key in self.data or self.defaults is None or key not in self.defaults.values:
            return None
        renamed = any(name in self.data for name in self.defaults.names.get(key, ()))
        return None if renamed else self.defaults.values[key]

    def found(self, *keys: str) -> str | None:
        """The first of `keys` that is present and not null.

        A key that the file states comes before any default, but for fields that the class keeps apart: an unstated
        `moe_intermediate_size` is not the stated `intermediate_size`.
        """
        said = next((key for key in keys if self._said(key) is not None), None)
        if not self.family or said == keys[0]:
            return said
        default = next((key for key in keys if self._default(key) is not None), None)
        if said is None or default is None:
            return said or default
        apart = self.defaults is not None and said in self.defaults.values
        return default if apart and keys.index(default) < keys.index(said) else said

    def source(self, *keys: str) -> str:
        """Where the answer to `keys` was read, or that it is the default of the class or the engine."""
        key = self.found(*keys)
        if key is None:
            return f"{self.where} (no {keys[0]})"
        if self.defaults is not None and self._said(key) is None:
            return self.defaults.source
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

    @once_each
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

    @once_each
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

    @once_each
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

    @once_each
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
    """The config of record for the language model: nested ones win over the wrapper's; it knows its class."""
    config, inner = root, _inner(root)
    around: list[str] = []
    while inner is not None:
        around.insert(0, config.text("model_type") or "")
        config, inner = inner, _inner(inner)
    return config.of_family(config.text("model_type") or "", *around)


def _inner(config: Config) -> Config | None:
    children = (config.child(key) for key in NESTED)
    return next((inner for inner in children if inner is not None and inner.found(*IDENTITY, *NESTED)), None)
