"""The config class that a plugin brings where transformers has none, or only one that runs a checkpoint's code."""

import keyword
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from autoadapter.artifacts.decoder import DecoderSpec, Value
from autoadapter.errors import UnsupportedModelError
from autoadapter.generate.plugin.package import Names

OF_THE_BASE = frozenset({
    "architectures", "auto_map", "model_type", "transformers_version", "torch_dtype", "dtype", "bos_token_id",
    "eos_token_id", "pad_token_id", "id2label", "label2id", "quantization_config", "name_or_path",
})  # fmt: skip
"""Fields that transformers' own base class keeps."""


@dataclass(frozen=True)
class ConfigurationModule:
    """`configuration.py` of the package."""

    template: ClassVar[str] = "plugin/__package__/configuration.py.j2"

    class_name: str
    model_type: str
    fields: tuple[tuple[str, str, Any], ...]
    """Names, types and defaults."""
    usual_names: tuple[tuple[str, str], ...]
    """What vLLM and transformers call a field → what this config calls it."""

    @classmethod
    def of(cls, spec: DecoderSpec, names: Names, config: dict[str, Any]) -> Self:
        """The view of a checkpoint's config.

        Raises:
            UnsupportedModelError: a name in the config is none of a Python argument.
        """
        fields = dict(_fields(spec, config))
        odd = [name for name in fields if not name.isidentifier() or keyword.iskeyword(name)]
        if odd:
            raise UnsupportedModelError(f"The config's {odd[0]!r} cannot be a field of a Python class.")
        usual = tuple((name, key) for name, key in _usual_names(spec) if name != key and name not in fields)
        return cls(
            class_name=names.config_class or "",
            model_type=spec.model_type,
            fields=tuple((name, *_default(value)) for name, value in fields.items()),
            usual_names=usual,
        )


def _default(value: Any) -> tuple[str, Any]:
    """Type and default. Lists and dicts have none: a checkpoint states its own."""
    if isinstance(value, dict | list):
        return ("dict[str, Any] | None" if isinstance(value, dict) else "list[Any] | None"), None
    return "Any" if value is None else type(value).__name__, value


def _fields(spec: DecoderSpec, config: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The checkpoint's settings, and those that its class adds and that no size is among."""
    own = {name: value for name, value in config.items() if not name.startswith("_") and name not in OF_THE_BASE}
    yield from own.items()
    for name, value in spec.config_seen.items():
        is_size = isinstance(value, int | dict | list) and not isinstance(value, bool)
        if name not in own and name not in OF_THE_BASE and not name.startswith("_") and not is_size:
            yield name, value


def _usual_names(spec: DecoderSpec) -> Iterator[tuple[str, str]]:
    heads = [branch.mixer for kind in spec.kinds for branch in kind.branches if hasattr(branch.mixer, "num_heads")]
    values: dict[str, Value | None] = {
        "hidden_size": spec.hidden_size,
        "vocab_size": spec.vocab_size,
        "num_hidden_layers": spec.num_layers,
        "max_position_embeddings": spec.max_positions,
        "num_attention_heads": heads[0].num_heads if heads else None,
        "num_key_value_heads": getattr(heads[0], "num_kv_heads", None) if heads else None,
        "head_dim": getattr(heads[0], "head_dim", None) if heads else None,
    }
    for name, value in values.items():
        if value and value.key and "." not in value.key and value.form == "identity" and value.factor == 1:
            yield name, value.key
