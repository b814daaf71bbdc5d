"""What a config may say about rotary frequencies."""

from collections.abc import Iterator
from typing import Any

from autoadapter.artifacts.decoder import Value
from autoadapter.probe.workers.fit.binding import stated

DICTS = ("rope_parameters", "rope_scaling")
THETA_KEYS = (
    "rope_theta",
    "rotary_emb_base",
    "rotary_base",
    "rope_base",
    "attn_config.rope_theta",
    "global_rope_theta",
)
USUAL_THETA = 10000.0

Said = tuple[str | None, str, Value]
"""Path of the dict or None, rope type, theta."""


def said_frequencies(config: Any, layer: int) -> list[Said]:
    """Everything that may say frequencies, the dict of the layer's own type first, a fixed theta last."""
    types = getattr(config, "layer_types", None) or []
    own = f".{types[layer]}" if layer < len(types) else "."
    said = [_of_dict(config, path, given) for path, given in _dicts(config)]
    said.sort(key=lambda one: not (one[0] or "").endswith(own))
    for key in THETA_KEYS:
        theta = stated(config, key)
        if isinstance(theta, int | float) and not isinstance(theta, bool):
            said.append((None, "default", Value(number=float(theta), key=key)))
    return [*said, (None, "default", Value(number=USUAL_THETA))]


def _of_dict(config: Any, path: str, given: dict[str, Any]) -> Said:
    kind, theta = str(given.get("rope_type") or given.get("type") or "default"), given.get("rope_theta")
    if theta is not None:
        return path, kind, Value(number=float(theta), key=f"{path}.rope_theta")
    above = getattr(config, "rope_theta", None)
    return path, kind, Value(number=USUAL_THETA) if above is None else Value(number=float(above), key="rope_theta")


def _dicts(config: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for key in DICTS:
        given = getattr(config, key, None)
        if not isinstance(given, dict):
            continue
        if given.keys() & {"rope_theta", "rope_type", "type"}:
            yield key, given
        yield from ((f"{key}.{name}", below) for name, below in given.items() if isinstance(below, dict))
