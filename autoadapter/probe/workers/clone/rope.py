"""Rotary positions of a clone: scaled regimes are crossed within a short prompt, sections fill the smaller heads."""

from collections.abc import Iterator
from typing import Any

from autoadapter.probe.workers.clone.keys import Stated, is_number
from autoadapter.probe.workers.clone.sizes import POSITIONS, Sizes

ORIGINAL = {"llama3": 32, "yarn": 32}
"""Positions before scaling; of other kinds half as many, so that a prompt of 24 lies beyond them."""
SHORT_ORIGINAL = 16
MOST_SCALING = 64


def shrink_rope(config: dict[str, Any], small: dict[str, Any], sizes: Sizes) -> None:
    """Fit the rotary settings of `small` in place.

    Args:
        config: the checkpoint's.
        small: the clone's, sizes done.
        sizes: before and after.
    """
    rotary = sizes.rope if Stated(config).number("qk_rope") else sizes.head_dim
    original = None
    for rope in _dictionaries(small):
        fraction = rope.get("partial_rotary_factor", small.get("partial_rotary_factor"))
        share = _even(rope if "partial_rotary_factor" in rope else small, rotary) if is_number(fraction) else 1.0
        half = int(rotary * share) // 2
        if rope.get("mrope_section"):
            rope["mrope_section"] = fill(rope["mrope_section"], half)
        for key in ("short_factor", "long_factor"):
            if isinstance(rope.get(key), list):
                rope[key] = pick(rope[key], half)
        if is_number(rope.get("original_max_position_embeddings")):
            original = ORIGINAL.get(str(rope.get("rope_type") or rope.get("type")), SHORT_ORIGINAL)
            rope["original_max_position_embeddings"] = original
    _keep_scaling(config, small, original)


def _even(settings: dict[str, Any], width: int) -> float:
    """The share of a head that is rotated; changed where an odd number of elements would be."""
    share = float(settings["partial_rotary_factor"])
    if int(width * share) % 2:
        share = settings["partial_rotary_factor"] = 2 * round(width * share / 2) / width
    return share


def _dictionaries(small: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every dictionary of rotary settings: flat, or one for each type of layer."""
    for key in ("rope_parameters", "rope_scaling"):
        value = small.get(key)
        if isinstance(value, dict):
            nested = [inner for inner in value.values() if isinstance(inner, dict)]
            yield from nested or [value]
    for key in ("text_config", "attn_config"):
        if isinstance(small.get(key), dict):
            yield from _dictionaries(small[key])


def _keep_scaling(config: dict[str, Any], small: dict[str, Any], original: int | None) -> None:
    """Keep the ratio of positions with and without scaling, which some implementations compute a factor from."""
    stated = Stated(config)
    was, of = stated.number("max_positions"), stated.number("original_positions")
    original = original or (SHORT_ORIGINAL if of else None)
    if not (was and of and original):
        return
    if is_number(small.get("original_max_position_embeddings")):
        small["original_max_position_embeddings"] = original
    if is_number(small.get("max_position_embeddings")):
        scaled = int(min(was / of, MOST_SCALING) * original)
        small["max_position_embeddings"] = max(scaled, POSITIONS)


def fill(sections: list[int], half: int) -> list[int]:
    """Sections in about the same proportion that add up to `half`."""
    total = sum(sections)
    result = [max(1, section * half // total) for section in sections]
    for step in range(half - sum(result)):
        result[step % len(result)] += 1
    return result


def pick(factors: list[float], count: int) -> list[float]:
    """`count` of the factors, evenly spread."""
    if len(factors) <= count:
        return factors
    return [factors[index * (len(factors) - 1) // max(count - 1, 1)] for index in range(count)]
