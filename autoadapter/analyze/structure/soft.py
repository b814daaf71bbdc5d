"""Sizes of towers and processors, whose configs nobody has checked: what is no number is as good as absent."""

from pydantic import JsonValue

from autoadapter.analyze.config import LARGEST, Config


def whole(config: Config, *keys: str) -> int | None:
    """The first key that holds a whole number above zero, or a list of such, whose largest counts."""
    for key in keys:
        value = config.get(key)
        numbers = [_number(item) for item in value] if isinstance(value, list) else [_number(value)]
        found = [number for number in numbers if number is not None]
        if found and len(found) == len(numbers):
            return max(found)
    return None


def real(config: Config, *keys: str) -> float | None:
    """The first key that holds a number above zero."""
    values = (config.get(key) for key in keys)
    return next((float(value) for value in values if isinstance(value, int | float) and 0 < value < LARGEST), None)


def _number(value: JsonValue) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < LARGEST:
        return None
    return int(value) if value == int(value) else None
