"""A config for an architecture of transformers without a checkpoint: its class's defaults and what real ones set."""

import json
from typing import Any

import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from autoadapter.probe.workers.clone.keys import DATA, key_table
from autoadapter.tables import read_table


def class_default_config(architecture: str) -> dict[str, Any]:
    """A document like the config.json of a checkpoint, as large as the class's defaults.

    Raises:
        AttributeError: transformers has no such class.
        StopIteration: its config class has no model type of its own.
    """
    cls = getattr(transformers, architecture).config_class
    model_type = _model_type(cls)
    settings = _grouped_heads(cls, model_type) | _settings(cls, model_type)
    config = cls(**settings).to_dict()
    config |= {"architectures": [architecture], "model_type": model_type}
    return json.loads(json.dumps({key: _plain(value) for key, value in config.items()}, default=str))


def _plain(value: Any) -> Any:
    """A part without what every config of transformers carries: a checkpoint's file has none of it."""
    if not isinstance(value, dict):
        return value
    return {key: _plain(inner) for key, inner in value.items() if key_table().role(str(key)) != "dropped"}


def _model_type(cls: Any) -> str:
    own = cls.model_type
    if CONFIG_MAPPING_NAMES.get(own) == cls.__name__:
        return own
    return next(name for name, known in CONFIG_MAPPING_NAMES.items() if known == cls.__name__)


def _rows() -> list[dict[str, Any]]:
    return read_table(DATA / "conformance.yaml")


def _settings(cls: Any, model_type: str) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for row in _rows():
        if model_type in row.get("models", ()):
            settings |= row.get("set", {})
            layers = cls().num_hidden_layers if "cycle" in row else 0
            for key, cycle in row.get("cycle", {}).items():
                settings[key] = [cycle[layer % len(cycle)] for layer in range(layers)]
    return settings


def _grouped_heads(cls: Any, model_type: str) -> dict[str, Any]:
    """Fewer key/value heads than heads, so that grouping is seen."""
    config = cls().to_dict()
    heads, groups = config.get("num_attention_heads"), config.get("num_key_value_heads")
    fixed = any(model_type in row.get("all_heads", ()) for row in _rows())
    if fixed or heads is None or groups != heads or config.get("kv_lora_rank") is not None or heads % 4:
        return {}
    return {"num_key_value_heads": heads // 4}
