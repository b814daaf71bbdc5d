"""The RoPE parameter objects of a config, under their old and new names."""

from autoadapter.analyze.config import Config

KEYS = ("rope_scaling", "rope_parameters")
"""transformers 4 and 5; where both are there, transformers 5.19 takes the older."""
ALREADY_SCALED = {"su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling", "mrope", "default"}
"""Kinds whose `max_position_embeddings` needs no factor. Source: vLLM 0.32 `_get_and_verify_max_len`."""


def rope_parameters(config: Config) -> tuple[Config, ...]:
    """One object per kind of layer; empty when the config has none. Full attention comes first."""
    for key in KEYS:
        outer = config.child(key)
        if outer is None or not outer.data:
            continue
        names = [name for name, value in outer.data.items() if isinstance(value, dict)]
        if names and outer.found("rope_type", "type", "rope_theta") is None:
            names.sort(key=lambda name: name != "full_attention")
            return tuple(inner for name in names if (inner := outer.child(name)) is not None)
        return (outer,)
    return ()


def stretches_context(kind: str) -> bool:
    """Whether vLLM multiplies the stated context by `factor`; no spelling of YaRN does."""
    return kind not in ALREADY_SCALED and "yarn" not in kind.lower()
