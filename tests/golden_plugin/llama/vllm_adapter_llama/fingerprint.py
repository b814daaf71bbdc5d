"""Refuses a config that is not the architecture that this code was measured on."""

from typing import Any, Final

from transformers import PretrainedConfig

FITTED: Final[dict[str, Any]] = {
    "attention_bias": False,
    "hidden_act": "silu",
    "mlp_bias": False,
    "tie_word_embeddings": False,
}
"""Settings that change what LlamaForCausalLM computes, as they were; sizes may differ."""


def require_fitted(config: PretrainedConfig) -> None:
    """Compare a config's settings with those that the code was written for.

    Raises:
        ValueError: one of them differs.
    """
    for path, fitted in FITTED.items():
        key, _, inner = path.partition(".")
        value = getattr(config, key, None if inner else fitted)
        if inner and isinstance(value, dict):
            value = value.get(inner, fitted)
        if value != fitted:
            raise ValueError(f"This plugin was made for a model with {path}={fitted!r}, the config says {value!r}.")
