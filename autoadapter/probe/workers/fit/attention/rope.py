"""Which rotation makes the rotated queries and keys from the plain ones."""

import itertools
from collections.abc import Iterator
from typing import Any, Literal

import torch

from autoadapter.artifacts.decoder import Rope, Value
from autoadapter.probe.workers.fit.attention.flow import relative
from autoadapter.probe.workers.fit.attention.frequencies import frequencies, parameter_sets
from autoadapter.probe.workers.fit.binding import bind

EXACT = 2e-5
STYLES: tuple[Literal["neox", "interleaved"], ...] = ("neox", "interleaved")
PARTS = (1.0, 0.5, 0.25, 0.75, 0.4, 0.125, 0.625, 0.375, 0.2, 0.8)


def rotate(x: torch.Tensor, rope: Rope, config: Any) -> torch.Tensor:
    """x [heads, tokens, dim], rotated by its positions; `interleaved` pairs stay where they are."""
    tokens, dim = x.shape[1], int(rope.rotary_dim.number)
    inverse, factor = frequencies(rope, config, tokens)
    if inverse.shape[0] * 2 != dim:
        raise ValueError(f"{inverse.shape[0]} frequencies for {dim} elements")
    start = 0 if rope.place == "leading" else x.shape[-1] - dim
    angles = (torch.arange(tokens).float() + rope.position_offset)[:, None] * inverse.float()
    cos, sin = angles.cos() * factor, angles.sin() * (-factor if rope.negative else factor)
    part = x[..., start : start + dim]
    first, second = _pairs(part, rope.style)
    turned = (first * cos - second * sin, second * cos + first * sin)
    joined = torch.cat(turned, -1) if rope.style == "neox" else torch.stack(turned, -1).flatten(-2)
    return torch.cat([x[..., :start], joined, x[..., start + dim :]], -1)


def halved(x: torch.Tensor, rope: Rope) -> torch.Tensor:
    """The rotated part's pairs (2i, 2i + 1) moved to (i, i + half)."""
    dim = int(rope.rotary_dim.number)
    start = 0 if rope.place == "leading" else x.shape[-1] - dim
    part = x[..., start : start + dim]
    return torch.cat([x[..., :start], part[..., ::2], part[..., 1::2], x[..., start + dim :]], -1)


def _pairs(part: torch.Tensor, style: str) -> tuple[torch.Tensor, torch.Tensor]:
    if style == "neox":
        half = part.shape[-1] // 2
        return part[..., :half], part[..., half:]
    return part[..., ::2], part[..., 1::2]


def fit_rope(config: Any, before: torch.Tensor, after: torch.Tensor) -> list[tuple[float, Rope]]:
    """All candidates with their errors, best first; `before` and `after` are [heads, tokens, dim]."""
    dim, tried = before.shape[-1], []
    for rotary_dim, place in _parts(config, before, after):
        sets = list(parameter_sets(config))
        for negative, offset, (path, kind, theta), style in itertools.product((False, True), (0, 1, 2), sets, STYLES):
            rope = Rope(
                style=style,
                rotary_dim=rotary_dim,
                place=place if rotary_dim.number < dim else "leading",
                parameters=path,
                theta=theta,
                rope_type=kind,
                position_offset=offset,
                negative=negative,
            )
            if (offset or negative) and tried and min(tried, key=lambda pair: pair[0])[0] < EXACT:
                continue
            tried.append((_error(config, rope, before, after), rope))
    return sorted(tried, key=lambda pair: pair[0])


def _error(config: Any, rope: Rope, before: torch.Tensor, after: torch.Tensor) -> float:
    try:
        turned = rotate(before, rope, config)
    except (KeyError, ValueError, TypeError, AttributeError, RuntimeError, ZeroDivisionError):
        return float("inf")  # this dict states no frequencies of that type or number
    error = relative(turned, after)
    return min(error, relative(halved(turned, rope), after)) if rope.style == "interleaved" else error


def _parts(config: Any, before: torch.Tensor, after: torch.Tensor) -> Iterator[tuple[Value, str]]:
    """Rotated widths and places to try, the widest that the unchanged elements allow first."""
    dim = before.shape[-1]
    changed = ((before - after).abs().amax((0, 1)) > 1e-6 * before.abs().max()).nonzero().flatten()
    low, high = (int(changed.min()), int(changed.max())) if len(changed) else (0, 0)
    seen = {(high + 2) // 2 * 2, (dim - low + 1) // 2 * 2}
    sizes = sorted({int(dim * part) // 2 * 2 for part in PARTS} | set(_stated(config, dim)) | seen, reverse=True)
    for size in sizes:
        if size and high < size:
            yield _dim(config, size, dim), "leading"
        if size and low >= dim - size and size < dim:
            yield _dim(config, size, dim), "trailing"


def _stated(config: Any, dim: int) -> Iterator[int]:
    for key in ("rotary_dim", "qk_rope_head_dim", "rope_dim"):
        size = getattr(config, key, None)
        if isinstance(size, int) and 0 < size <= dim:
            yield size


def _dim(config: Any, size: int, dim: int) -> Value:
    """Bound to its own key, else to the head's width; without a key the factor is relative to the head's width."""
    own = bind(config, size, ("rotary_dim", "qk_rope_head_dim"))
    if own.key:
        return own
    share = bind(config, size, ("head_dim",), factors=(size / dim,))
    return share if share.key else Value(number=size, factor=size / dim)
