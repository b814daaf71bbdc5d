"""The RoPE parameter objects of a config, under their old and new names."""

from autoadapter.analyze.config import Config

KEYS = ("rope_scaling", "rope_parameters")
"""transformers 4 and 5; where both are there, transformers 5.19 takes the older."""
FINAL = {"su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling", "telechat3-yarn"}
"""Kinds whose `max_position_embeddings` is the final length. Source: vLLM 0.32 `_get_and_verify_max_len`; its
`patch_legacy_rope_type` makes telechat3-yarn a yarn."""
RENAMED = {"su": "longrope", "mrope": "default", "telechat3-yarn": "yarn"}
"""Older words → what vLLM reads. Source: vLLM 0.32 `patch_legacy_rope_type`."""


def rope_parameters(config: Config) -> tuple[Config, ...]:
    """One object per kind of layer; empty when the config has none. Full attention comes first."""
    return tuple(sorted(rope_by_layer(config), key=lambda inner: not inner.where.endswith("full_attention")))


def rope_by_layer(config: Config) -> tuple[Config, ...]:
    """The same in the order of the file, which is vLLM's."""
    for key in KEYS:
        outer = config.child(key)
        if outer is None or not outer.data:
            continue
        names = [name for name, value in outer.data.items() if isinstance(value, dict)]
        if names and outer.found("rope_type", "type", "rope_theta") is None:
            return tuple(inner for name in names if (inner := outer.child(name)) is not None)
        return (outer,)
    return ()


def rope_kind(parameters: Config) -> str:
    """The kind as vLLM reads it; without a word it is `default`."""
    kind = parameters.text("rope_type", "type") or "default"
    return RENAMED.get(kind, kind)


def stretches_context(kind: str) -> bool:
    """Whether vLLM multiplies the stated context by `factor`; no spelling of YaRN does, and `default` does."""
    return kind not in FINAL and "yarn" not in kind.lower()
