"""Configs inside a config: objects with attributes, where other nested settings are dicts."""

from typing import Any

from autoadapter.artifacts.decoder import DecoderSpec
from autoadapter.generate.plugin.expressions import INSIDE


def with_inner_configs(spec: DecoderSpec) -> DecoderSpec:
    """The spec with keys such as `ffn_config.moe_top_k` marked, so that code reads `config.ffn_config.moe_top_k`.

    transformers writes a `model_type` into every config, also into one that is a part of another.
    """
    inner = {name for name, value in spec.config_seen.items() if isinstance(value, dict) and "model_type" in value}
    if not inner:
        return spec
    document = spec.model_dump(mode="json")
    _mark(document, inner)
    return DecoderSpec.model_validate(document)


def _mark(node: Any, inner: set[str]) -> None:
    for item in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        _mark(item, inner)
    if not isinstance(node, dict):
        return
    for name in ("key", "parameters"):
        key = node.get(name)
        if isinstance(key, str) and key.partition(".")[0] in inner:
            node[name] = key.replace(".", INSIDE, 1)
