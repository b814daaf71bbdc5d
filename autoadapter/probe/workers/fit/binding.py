"""Finds the config key that states a fitted number."""

from collections.abc import Iterable
from typing import Any

from autoadapter.artifacts.decoder import Form, Value

TOLERANCE = 1e-6
"""Relative; a config holds what Python read from JSON, a fit what float32 made of it."""


def stated(config: Any, key: str) -> Any:
    """The config's value at a dotted path, or None; a list is entered by number: `mlp_multipliers.0`."""
    node = config
    for part in key.split("."):
        if isinstance(node, list | tuple):
            node = node[int(part)] if part.isdigit() and int(part) < len(node) else None
        else:
            node = node.get(part) if isinstance(node, dict) else _attribute(node, part)
    return node


def _attribute(node: Any, name: str) -> Any:
    try:
        return getattr(node, name, None)
    except RuntimeError:
        return None  # a heterogeneous config refuses to say one value for layers that differ


def bind(
    config: Any,
    number: float,
    keys: Iterable[str],
    *,
    forms: tuple[Form, ...] = ("identity",),
    factors: tuple[float, ...] = (1.0,),
) -> Value:
    """The number with the first of `keys` that explains it; without a key when none does.

    Args:
        config: the reference's text config.
        number: as fitted.
        keys: dotted paths, the likeliest first.
        forms: how the number may follow from the key's value.
        factors: by what it may be multiplied.
    """
    for key in keys:
        value = stated(config, key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        for form in forms:
            for factor in factors:
                candidate = Value(number=number, key=key, form=form, factor=factor)
                if (value > 0 or form == "identity") and _close(candidate.under(value), number):
                    return candidate
    return Value(number=number)


def _close(first: float, second: float) -> bool:
    return abs(first - second) <= TOLERANCE * max(abs(first), abs(second), 1e-30)
