"""Write `autoadapter/engine/registry/config_classes.json`: what transformers' own tables say of each model type.

    python scripts/generate_config_classes.py --vllm SITE_PACKAGES/vllm

Run it where the newest transformers is installed. It holds the bare class and the class that generates text of each
model type, which types are encoder-decoders, and which kinds of JSON value the typed fields of a configuration accept.
`--vllm` names an installed vLLM: types that it reads with a class of its own have no fields here.
"""

import argparse
import ast
import dataclasses
import json
import types
import typing
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.configuration_utils import _LEGACY_LAYER_TYPE_REMAP, ALLOWED_ATTN_LAYER_TYPES
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

TARGET = Path(__file__).parents[1] / "autoadapter" / "engine" / "registry" / "config_classes.json"
GENERATE = (
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
)  # fmt: skip
"""Tables of classes that generate text, the first that has a model type counts."""
FEWEST = 6
"""Fields that fewer families have are left out."""
KINDS = {int: "int", float: "float", str: "str", bool: "bool", type(None): "null"}
WHATEVER = frozenset({"any"})


def main() -> int:
    """Generate the file and print its path."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vllm", type=Path, required=True, help="folder of an installed vllm package")
    own = set(_own_types(parser.parse_args().vllm / "transformers_utils" / "config.py"))
    generators = dict(_generators())
    checked = [kind for kind in sorted(CONFIG_MAPPING) if kind not in own and _is_text(kind, generators)]
    document = {
        "source": f"transformers {transformers.__version__}",
        "bare": {kind: _first(name) for kind, name in sorted(modeling_auto.MODEL_MAPPING_NAMES.items())},
        "generators": dict(sorted(generators.items())),
        "encoder_decoders": sorted(_encoder_decoders()),
        "layer_types": sorted({*ALLOWED_ATTN_LAYER_TYPES, *_LEGACY_LAYER_TYPE_REMAP}),
        "checked": checked,
        "fields": _fields(checked),
    }
    TARGET.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(TARGET)
    return 0


def _first(name: object) -> str:
    return str(name[0] if isinstance(name, tuple | list) else name)


def _own_types(file: Path) -> Iterator[str]:
    """Keys of vLLM's `_CONFIG_REGISTRY`; nothing of vLLM is imported."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "_CONFIG_REGISTRY":
            words = node.value.keywords if isinstance(node.value, ast.Call) else []
            yield from (word.arg for word in words if word.arg)


def _generators() -> Iterator[tuple[str, str]]:
    for table in reversed(GENERATE):
        yield from ((kind, _first(name)) for kind, name in getattr(modeling_auto, table).items())


def _is_text(kind: str, generators: dict[str, str]) -> bool:
    return kind in generators or kind.endswith("_text")


def _encoder_decoders() -> Iterator[str]:
    for kind in CONFIG_MAPPING:
        if getattr(CONFIG_MAPPING[kind], "is_encoder_decoder", False) is True:
            yield kind


def _fields(model_types: list[str]) -> dict[str, dict[str, list[str]]]:
    """Field → kinds that it accepts, as `bool null` → model types; the commonest answer stands as `*`."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for kind in model_types:
        for name, accepted in _accepted(CONFIG_MAPPING[kind]):
            found[name][kind] = accepted
    table = {}
    for name, by_type in sorted(found.items()):
        if len(by_type) < FEWEST:
            continue
        rows: dict[str, list[str]] = defaultdict(list)
        for kind in model_types:
            rows[by_type.get(kind, "")].append(kind)
        common = Counter({kinds: len(members) for kinds, members in rows.items()}).most_common(1)[0][0]
        rows[common] = ["*"]
        table[name] = dict(sorted(rows.items()))
    return table


def _accepted(config: Any) -> Iterator[tuple[str, str]]:
    """Typed fields of a configuration class that `@strict` checks; those that accept anything are left out."""
    hints = typing.get_type_hints(config, localns={"torch": torch})
    for field in dataclasses.fields(config):
        kinds = _kinds(hints.get(field.name, field.type))
        if not kinds & WHATEVER:
            yield field.name, " ".join(sorted(kinds))


def _kinds(hint: Any) -> frozenset[str]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return frozenset[str]().union(*map(_kinds, arguments))
    if origin is typing.Literal:
        return frozenset(KINDS.get(type(word), "any") for word in arguments)
    if origin in (list, tuple) or hint in (list, tuple):
        return frozenset({"list"})
    if origin is dict or hint is dict or typing.is_typeddict(hint):
        return frozenset({"dict"})
    return frozenset({KINDS[hint]}) if hint in KINDS else WHATEVER


if __name__ == "__main__":
    raise SystemExit(main())
