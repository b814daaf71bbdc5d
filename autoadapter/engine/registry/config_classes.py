"""What transformers' own tables say of a model type: data of `scripts/generate_config_classes.py`."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

DATA = Path(__file__).with_name("config_classes.json")
REST = "*"


@dataclass(frozen=True)
class _Table:
    source: str
    bare: dict[str, str]
    generators: dict[str, str]
    encoder_decoders: frozenset[str]
    layer_types: frozenset[str]
    checked: frozenset[str]
    fields: dict[str, dict[str, list[str]]]


@cache
def _table() -> _Table:
    data = json.loads(DATA.read_bytes())
    for key in ("encoder_decoders", "layer_types", "checked"):
        data[key] = frozenset(data[key])
    return _Table(**data)


def classes_source() -> str:
    """The release of transformers that the tables were read from."""
    return _table().source


def bare_class(model_type: str) -> str | None:
    """The class without a head, which vLLM fills in where config.json names no architecture: `Qwen3Model`."""
    return _table().bare.get(model_type)


def generating_class(model_type: str) -> str | None:
    """The class that generates text: `Qwen3ForCausalLM`."""
    return _table().generators.get(model_type)


def is_encoder_decoder(model_type: str) -> bool:
    """Whether the configuration class says so where the file leaves it out."""
    return model_type in _table().encoder_decoders


def is_checked(model_type: str) -> bool:
    """Whether transformers checks the fields of a decoder's configuration, and vLLM has no class of its own for it."""
    return model_type in _table().checked


def known_layer_types() -> frozenset[str]:
    """Words that `layer_types` may hold, older ones included."""
    return _table().layer_types


def accepted_kinds(model_type: str, field: str) -> frozenset[str]:
    """Kinds of JSON value that a configuration class accepts for a field; empty where it checks none.

    `bool`, `int`, `float`, `str`, `list`, `dict` and `null`. A whole number is no `float`, a truth value no `int`.
    """
    rows = _table().fields.get(field) if is_checked(model_type) else None
    if rows is None:
        return frozenset()
    named = next((kinds for kinds, members in rows.items() if model_type in members), None)
    rest = next(kinds for kinds, members in rows.items() if members == [REST])
    return frozenset((rest if named is None else named).split())


def checked_fields() -> tuple[str, ...]:
    """Fields that some configuration classes check."""
    return tuple(_table().fields)
