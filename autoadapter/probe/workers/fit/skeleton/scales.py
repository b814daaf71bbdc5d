"""Under which config keys the scales of a decoder are found."""

from collections.abc import Iterator
from typing import Any

SCALE_KEYS = {
    "input": ("attention_in_multiplier", "ssm_in_multiplier"),
    "output": ("residual_multiplier", "attention_out_multiplier", "ssm_out_multiplier"),
    "stream": (),
    "embedding": ("embedding_multiplier", "scale_emb", "embedding_scale", "hidden_size", "d_model"),
    "head": ("logits_scaling", "logit_scale", "lm_head_multiplier", "logits_scale", "logits_multiplier"),
}
"""The likeliest keys of each place; others are found by their number."""


def numeric_keys(config: Any) -> tuple[str, ...]:
    """Dotted paths of the config's numbers that are no whole ones: multipliers, as a rule."""
    document = config.to_dict() if hasattr(config, "to_dict") else dict(config)
    return tuple(_floats(document, ""))


def _floats(node: Any, prefix: str) -> Iterator[str]:
    for key, value in node.items():
        if isinstance(value, float):
            yield f"{prefix}{key}"
        elif isinstance(value, dict):
            yield from _floats({k: v for k, v in value.items() if isinstance(k, str)}, f"{prefix}{key}.")
