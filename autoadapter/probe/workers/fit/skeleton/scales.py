"""Under which config keys the scales of a decoder are found."""

from collections.abc import Iterator
from typing import Any

from autoadapter.artifacts.decoder import Form, Value
from autoadapter.probe.workers.fit.binding import bind, stated
from autoadapter.probe.workers.fit.skeleton.terms import Term

FORMS: tuple[Form, ...] = ("identity", "reciprocal", "square_root", "inverse_square_root")
SCALE_KEYS = {
    "input": ("attention_in_multiplier", "ssm_in_multiplier"),
    "output": ("residual_multiplier", "attention_out_multiplier", "ssm_out_multiplier"),
    "stream": (),
    "embedding": ("embedding_multiplier", "scale_emb", "embedding_scale", "hidden_size", "d_model", "n_embd"),
    "head": ("logits_scaling", "logit_scale", "lm_head_multiplier", "logits_scale", "logits_multiplier"),
}
"""The likeliest keys of each place; others are found by their number."""
PRODUCTS: tuple[tuple[str, Form, str], ...] = (
    ("num_hidden_layers", "inverse_square_root", "scale_depth"),
    ("num_hidden_layers", "inverse_square_root", ""),
    ("hidden_size", "reciprocal", "dim_model_base"),
)
"""Two keys in one number (μP): key, its form, and what multiplies it; "" for any number that is no whole one."""


def bind_scale(config: Any, term: Term, place: str) -> Value | None:
    """The factor of a term as a value; None where nothing scales, or by one and no key says so.

    Args:
        config: the reference's text config.
        term: as split.
        place: a key of `SCALE_KEYS`.
    """
    if not term.scaled and term.factor == 1:
        return None
    value = bind(config, term.factor, (*SCALE_KEYS[place], *numeric_keys(config)), forms=FORMS)
    if value.key is None and term.factor != 1:
        value = _product(config, term.factor)
    return None if term.factor == 1 and value.key is None else value


def numeric_keys(config: Any) -> tuple[str, ...]:
    """Dotted paths of the config's numbers that are no whole ones: multipliers, as a rule."""
    document = config.to_dict() if hasattr(config, "to_dict") else dict(config)
    return tuple(_floats(document, ""))


def _product(config: Any, number: float) -> Value:
    for key, form, other in PRODUCTS:
        others = (stated(config, name) for name in ([other] if other else numeric_keys(config)))
        factors = tuple(float(value) for value in others if isinstance(value, int | float) and value)
        value = bind(config, number, (key,), forms=(form,), factors=factors)
        if value.key is not None:
            return value
    return Value(number=number)


def _floats(node: Any, prefix: str) -> Iterator[str]:
    pairs = enumerate(node) if isinstance(node, list) else node.items()
    for key, value in pairs:
        if isinstance(value, float):
            yield f"{prefix}{key}"
        elif isinstance(value, dict | list) and len(value) < 64:
            yield from _floats(value, f"{prefix}{key}.")
