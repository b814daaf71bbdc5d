"""Rotary position embeddings."""

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from autoadapter.artifacts.decoder import Rope
from autoadapter.probe.workers.fit.binding import stated


def rotated(rope: Rope | None, config: Any, x: Tensor) -> Tensor:
    """Queries or keys [tokens, heads, head_dim] at positions 0 … tokens - 1; x itself without a rope."""
    if rope is None:
        return x
    width = int(rope.rotary_dim.number)
    cos, sin = angles(rope, config, x.shape[0])
    if rope.place == "trailing":
        return torch.cat([x[..., :-width], _turn(rope, x[..., -width:], cos, sin)], dim=-1)
    return torch.cat([_turn(rope, x[..., :width], cos, sin), x[..., width:]], dim=-1)


def angles(rope: Rope, config: Any, tokens: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines [tokens, 1, rotary_dim / 2], with the attention factor of the scaling in them."""
    frequencies, factor = _frequencies(rope, config, tokens)
    position = torch.arange(tokens, dtype=torch.float32) + rope.position_offset
    angle = (position[:, None] * frequencies)[:, None]
    return angle.cos() * factor, angle.sin() * (-factor if rope.negative else factor)


def _turn(rope: Rope, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    if rope.style == "interleaved":
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, odd * cos + even * sin], dim=-1).flatten(-2)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def _frequencies(rope: Rope, config: Any, tokens: int) -> tuple[Tensor, float]:
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    if rope.rope_type == "default":
        width = int(rope.rotary_dim.number)
        exponent = torch.arange(0, width, 2, dtype=torch.float32) / width
        return 1.0 / rope.theta.number**exponent, 1.0
    init = ROPE_INIT_FUNCTIONS[rope.rope_type]
    frequencies, factor = init(_rope_config(rope, config), torch.device("cpu"), seq_len=tokens)
    return frequencies, float(factor)


def _rope_config(rope: Rope, config: Any) -> SimpleNamespace:
    """A config that states this rope alone, as transformers' functions read it."""
    parameters = dict(stated(config, rope.parameters) or {}) if rope.parameters else {}
    parameters |= {"rope_theta": rope.theta.number, "rope_type": rope.rope_type}
    if rope.rope_type != "proportional":
        parameters["partial_rotary_factor"] = 1.0  # rotary_dim has it already
    longest = stated(config, "max_position_embeddings")
    original = stated(config, "original_max_position_embeddings") or longest
    parameters.setdefault("original_max_position_embeddings", original)
    return SimpleNamespace(
        rope_parameters=parameters,
        head_dim=int(rope.rotary_dim.number),
        hidden_size=int(rope.rotary_dim.number),
        num_attention_heads=1,
        max_position_embeddings=longest,
        standardize_rope_params=lambda: None,
    )
