"""Which rotation makes the rotated queries and keys from the plain ones."""

import itertools
from collections.abc import Iterator
from typing import Any, Literal

import torch

from autoadapter.artifacts.decoder import Rope, Value
from autoadapter.probe.workers.fit.attention.flow import relative
from autoadapter.probe.workers.fit.attention.frequencies import said_frequencies
from autoadapter.probe.workers.fit.binding import bind, stated
from autoadapter.probe.workers.replay.rope import rotated

EXACT = 2e-5
OFF = 1e9
SHARES = (1.0, 0.5, 0.25, 0.75, 0.4, 0.125, 0.625, 0.375, 0.2, 0.8)
"""Of a head's width that are rotated, to try; what the numbers or the config say comes on top."""
DIM_KEYS = ("rotary_dim", "qk_rope_head_dim", "rope_dim")
STYLES: tuple[Literal["neox", "interleaved"], ...] = ("neox", "interleaved")
RARE = tuple(itertools.product((False, True), (0, 1, 2)))
"""(negative angle, position offset): the plain ones first, the others only when nothing else explains."""

Place = Literal["leading", "trailing"]


def fit_rope(config: Any, layer: int, before: torch.Tensor, after: torch.Tensor) -> list[tuple[float, Rope]]:
    """All candidates with their errors, best first; `before` and `after` are [heads, tokens, dim]."""
    tried: list[tuple[float, Rope]] = []
    for negative, offset in RARE:
        for rope in _candidates(config, layer, before, after):
            rare = rope.model_copy(update={"negative": negative, "position_offset": offset})
            tried.append((_error(config, rare, before, after), rare))
        tried.sort(key=lambda pair: pair[0])
        if not tried or tried[0][0] < EXACT:
            break
    return tried


def _candidates(config: Any, layer: int, before: torch.Tensor, after: torch.Tensor) -> Iterator[Rope]:
    for rotary_dim, place in _parts(config, before, after):
        for (path, kind, theta), style in itertools.product(said_frequencies(config, layer), STYLES):
            yield Rope(style=style, rotary_dim=rotary_dim, place=place, parameters=path, theta=theta, rope_type=kind)


def _error(config: Any, rope: Rope, before: torch.Tensor, after: torch.Tensor) -> float:
    try:
        turned = rotated(rope, config, before.transpose(0, 1)).transpose(0, 1)
    except (KeyError, ValueError, TypeError, AttributeError, RuntimeError, ZeroDivisionError):
        return OFF  # this dict states no frequencies of that type or number
    error = relative(turned, after)
    error = min(error, relative(_halved(turned, rope), after)) if rope.style == "interleaved" else error
    return min(error, OFF)


def _halved(x: torch.Tensor, rope: Rope) -> torch.Tensor:
    """The rotated part's pairs (2i, 2i + 1) moved to (i, i + half)."""
    dim = int(rope.rotary_dim.number)
    start = 0 if rope.place == "leading" else x.shape[-1] - dim
    part = x[..., start : start + dim]
    return torch.cat([x[..., :start], part[..., ::2], part[..., 1::2], x[..., start + dim :]], -1)


def _parts(config: Any, before: torch.Tensor, after: torch.Tensor) -> Iterator[tuple[Value, Place]]:
    """Rotated widths and places that the unchanged elements allow."""
    dim = before.shape[-1]
    changed = ((before - after).abs().amax((0, 1)) > 1e-6 * before.abs().max()).nonzero().flatten()
    low, high = (int(changed.min()), int(changed.max())) if len(changed) else (0, 0)
    measured = {(high + 2) // 2 * 2, (dim - low + 1) // 2 * 2}
    said = {size for key in DIM_KEYS if isinstance(size := stated(config, key), int) and size <= dim}
    sizes = {int(dim * share) // 2 * 2 for share in SHARES} | said | measured
    for size in sorted(sizes - {0}, reverse=True):
        if high < size <= dim:
            yield _dim(config, size, dim), "leading"
        elif low >= dim - size and size < dim:
            yield _dim(config, size, dim), "trailing"


def _dim(config: Any, size: int, dim: int) -> Value:
    """Bound to its own key, else to the head's width; without a key the factor is relative to the head's width."""
    own = bind(config, size, DIM_KEYS)
    if own.key:
        return own
    share = bind(config, size, ("head_dim",), factors=(size / dim,))
    return share if share.key else Value(number=size, factor=size / dim)
