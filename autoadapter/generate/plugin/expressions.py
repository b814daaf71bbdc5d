"""Numbers of a spec as Python expressions on `config`, the way a person writes them."""

from autoadapter.artifacts.decoder import Form, Value

POWERS: dict[Form, str] = {
    "identity": "",
    "reciprocal": "**-1",
    "square_root": "**0.5",
    "inverse_square_root": "**-0.5",
}
INSIDE = ":"
"""Parts the name of a config inside the config from a name in it, where a dot leads into a dict."""


def expression(value: Value, config: str = "config") -> str:
    """`config.head_dim**-0.5`, `4 * config.hidden_size`; the number itself where no key holds it.

    Args:
        value: the number and where the config states it.
        config: how the rendered code calls the config.
    """
    if value.key is None:
        return repr(value.number)
    attribute, *parts = value.key.split(".")
    inside = "".join(f"[{part}]" if part.isdigit() else f'["{part}"]' for part in parts)
    stated = f"{config}.{attribute.replace(INSIDE, '.')}{inside}"
    term = f"1 / {stated}" if value.form == "reciprocal" else stated + POWERS[value.form]
    return _scaled(term, value)


def _scaled(term: str, value: Value) -> str:
    factor = value.factor
    if factor == 1:
        return term
    is_whole = isinstance(value.number, int)
    if value.form == "reciprocal":
        return f"{_number(factor)}{term.removeprefix('1')}"
    if is_whole and factor < 1 and float(1 / factor).is_integer():
        return f"{term} // {int(1 / factor)}"
    if is_whole and not float(factor).is_integer():
        return f"int({_number(factor)} * {term})"
    return f"{_number(factor)} * {term}"


def _number(value: float) -> str:
    return repr(int(value)) if float(value).is_integer() else repr(value)
