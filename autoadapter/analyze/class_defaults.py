"""What a config leaves to its class in transformers or vLLM: data of `scripts/generate_config_defaults.py`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from pydantic import JsonValue

DATA = Path(__file__).with_name("config_defaults.json")


@dataclass(frozen=True)
class ClassDefaults:
    """Values of one configuration class where a file is silent."""

    source: str
    """The class and its release, as findings name them."""
    values: Mapping[str, JsonValue]
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Key → its other names in the class: who states one of them has stated the key."""
    model_type: str = ""
    """Of the class; another than the file's where the file describes a whole."""
    layer_types: tuple[str, ...] = ()
    """The period of the kinds of layers; empty where other keys tell them."""
    all_layer_types: tuple[str, ...] = ()
    """The kinds of all layers where none repeats; they hold for as many layers alone."""
    ends_full: bool = False
    """The last layer is full attention whatever the period says."""

    def kinds(self, count: int) -> tuple[str, ...]:
        """Kinds of so many layers; empty where the class does not tell them."""
        if not self.layer_types:
            return self.all_layer_types if len(self.all_layer_types) == count else ()
        repeated = [self.layer_types[layer % len(self.layer_types)] for layer in range(count)]
        return (*repeated[:-1], "full_attention") if self.ends_full and repeated else tuple(repeated)


@cache
def _table() -> dict[str, JsonValue]:
    document = json.loads(DATA.read_bytes())
    return document if isinstance(document, dict) else {}


def class_defaults(own: str, wholes: Sequence[str] = ()) -> ClassDefaults | None:
    """Defaults of a language model's class; None where neither transformers nor vLLM has one.

    Args:
        own: the model type of the language model's config; empty where it names none.
        wholes: model types of the configs around it, innermost first.
    """
    row = _row(own)
    if (inner := row.get("text")) is not None:
        return _defaults(str(inner), row.get("text_absent"))
    for whole in (found for name in wholes if "text" in (found := _row(name))):
        inner = str(whole["text"])
        if own in ("", inner, _row(inner).get("model_type")):
            return _defaults(inner, whole.get("text_given"))
    return _defaults(own, None)


def _row(model_type: str) -> dict[str, JsonValue]:
    types = _table().get("types")
    row = types.get(model_type) if isinstance(types, dict) else None
    return row if isinstance(row, dict) else {}


def _defaults(name: str, overlay: JsonValue) -> ClassDefaults | None:
    row = _row(name)
    values, aliases = row.get("keys"), row.get("aliases")
    if not isinstance(values, dict):
        return None
    names: dict[str, tuple[str, ...]] = {}
    for alias, key in aliases.items() if isinstance(aliases, dict) else ():
        names[str(key)] = (*names.get(str(key), ()), alias)
    return ClassDefaults(
        source=_source(row),
        values=values | (overlay if isinstance(overlay, dict) else {}),
        names=names,
        model_type=str(row.get("model_type", name)),
        layer_types=_words(row.get("layer_types")),
        all_layer_types=_words(row.get("all_layer_types")),
        ends_full=bool(row.get("ends_full")),
    )


def _words(value: JsonValue) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _source(row: Mapping[str, JsonValue]) -> str:
    package = "vllm" if row.get("of") == "vllm" else "transformers"
    release = ".".join(str(_table()[package]).split(".")[:2])
    owner = "vLLM's" if package == "vllm" else "transformers'"
    return f"default of {owner} {row['class']} ({release})"
