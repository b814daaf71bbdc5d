"""Values of a kind that transformers' configuration classes refuse: text where a number belongs, or null.

These classes are strict dataclasses: each typed field is checked as the file is read, and vLLM does not start.
"""

from collections.abc import Iterator

from pydantic import JsonValue

from autoadapter.analyze.config import Config
from autoadapter.analyze.reading import Evidence
from autoadapter.analyze.text import json_word
from autoadapter.artifacts import Finding, Level
from autoadapter.engine.registry import accepted_kinds, checked_fields, classes_source, known_layer_types
from autoadapter.engine.registry import is_checked as is_checked_type
from autoadapter.engine.versions import within

KINDS: dict[type, str] = {
    bool: "bool", int: "int", float: "float", str: "str", list: "list", dict: "dict", type(None): "null",
}  # fmt: skip
WORDS = {
    "bool": "true or false", "int": "a whole number", "float": "a number with a point", "str": "text", "list": "a list",
    "dict": "an object", "null": "null",
}  # fmt: skip
ROPE = ("rope_scaling", "rope_parameters")
OBJECTS = ("quantization_config", "compression_config")
SHOWN_CHARACTERS = 40
STRICT_SINCE = "0.25.0"
"""vLLM's first known release; it asks for transformers 5.5.3, whose classes are strict."""
TORCH_NAMES = (
    "bfloat16", "float16", "half", "float32", "float", "float64", "double", "float8_e4m3fn", "float8_e5m2", "int8",
    "uint8",
)  # fmt: skip


def kind_findings(evidence: Evidence, vllm_version: str) -> Iterator[Finding]:
    """Wrong kinds in the wrapper's and in the language model's config, then lists of layers.

    Args:
        evidence: the model.
        vllm_version: of the engine; older ones stand on a transformers that checks nothing.
    """
    configs = [evidence.root] + ([evidence.language] if evidence.language is not evidence.root else [])
    for config in configs:
        yield from _objects(config)
        if is_checked(config) and within(vllm_version, STRICT_SINCE, None):
            yield from _fields(config)
            yield from _dtype(config)
            yield from _layer_types(config)


def is_checked(config: Config) -> bool:
    """Whether a class of transformers' own reads the config; the checkpoint's own code may accept anything."""
    auto_map = config.get("auto_map")
    return is_checked_type(config.text("model_type") or "") and not (
        isinstance(auto_map, dict) and "AutoConfig" in auto_map
    )


def _objects(config: Config) -> Iterator[Finding]:
    """Keys that must hold an object; empty ones count as absent where transformers takes them so."""
    for key in (*ROPE, *OBJECTS):
        value = config.get(key)
        if value is None or isinstance(value, dict) or (key in ROPE and not value):
            continue
        message = (
            f"{config.source(key)} is {shown(value)}, {json_word(value)} instead of an object; vLLM does not start."
        )
        yield wrong(message, config.source(key), f"Mend {key} in the file: it is an object, or null.")


def _fields(config: Config) -> Iterator[Finding]:
    model_type = config.text("model_type") or ""
    for key in checked_fields():
        if key not in config.data or key in ROPE:
            continue
        value, accepted = config.data[key], accepted_kinds(model_type, key)
        if not accepted or KINDS.get(type(value), "") in accepted:
            continue
        source = f"{config.where}{'.' if ':' in config.where else ':'}{key}"
        wanted = " or ".join(WORDS[kind] for kind in sorted(accepted))
        message = (
            f"{source} is {shown(value)}; the class for {model_type} in {classes_source()} takes {wanted} there, and"
        )
        message += " vLLM stops as it reads the file."
        yield wrong(message, source, f"Mend {key} in the file.")


def _dtype(config: Config) -> Iterator[Finding]:
    """The word is looked up in torch as it stands; `dtype` comes before the older `torch_dtype`."""
    key = config.stated.found("dtype", "torch_dtype")
    value = config.data.get(key or "")
    if key is None or value in TORCH_NAMES:
        return
    message = (
        f"{config.source(key)} is {shown(value)}, which torch has no type of; transformers stops as it reads the file."
    )
    yield wrong(message, config.source(key), "Write bfloat16, float16 or float32, as the weights are stored.")


def _layer_types(config: Config) -> Iterator[Finding]:
    """Source: transformers 5.19 `PreTrainedConfig.validate_layer_type`."""
    names, layers = config.texts("layer_types"), config.get("num_hidden_layers")
    if names is None or not isinstance(layers, int):
        return
    source = config.source("layer_types")
    unknown = next((name for name in names if name not in known_layer_types()), None)
    if unknown is not None:
        message = f"{source} has the entry {unknown[:SHOWN_CHARACTERS]!r}, which transformers up to 5.19 refuses."
        yield wrong(message, source, "Take config.json from where the weights came from, or a newer transformers.")
    elif len(names) != layers:
        message = f"{source} has {len(names)} entries and num_hidden_layers is {layers}; "
        message += "transformers refuses a list of another length, and vLLM does not start."
        yield wrong(message, source, "Mend one of them: there is one entry for each layer.")


def shown(value: JsonValue) -> str:
    """A value for a message, short."""
    if isinstance(value, list | dict):
        return f"[{len(value)} entries]" if value else "empty"
    return "null" if value is None else repr(value)[:SHOWN_CHARACTERS] if isinstance(value, str) else _word(value)


def _word(value: float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)[:SHOWN_CHARACTERS]


def wrong(message: str, source: str, hint: str) -> Finding:
    """A value that the engine refuses to read."""
    return Finding(code="config.refused", level=Level.BLOCKER, message=message, hint=hint, source=source)
