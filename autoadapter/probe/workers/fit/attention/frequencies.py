"""Rotary frequencies: transformers' own formulas on a dict of the config."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from autoadapter.artifacts.decoder import Rope, Value
from autoadapter.probe.workers.fit.binding import stated

THETA_KEYS = ("rope_theta", "rotary_emb_base", "rotary_base", "rope_base", "attn_config.rope_theta", "global_rope_theta")


def frequencies(rope: Rope, config: Any, tokens: int) -> tuple[torch.Tensor, float]:
    """[rotary_dim / 2] inverse frequencies, and what multiplies cosine and sine, for a sequence of `tokens`."""
    dim = int(rope.rotary_dim.number)
    theta = float(rope.theta.number)
    if rope.rope_type == "default":
        return 1.0 / theta ** (torch.arange(0, dim, 2, dtype=torch.int64).float() / dim), 1.0
    stated_there = stated(config, rope.parameters) if rope.parameters else {}
    given = {**stated_there, "rope_theta": theta, "rope_type": rope.rope_type}
    if rope.rope_type != "proportional":
        given["partial_rotary_factor"] = 1.0
    like = SimpleNamespace(
        rope_parameters=given,
        head_dim=dim,
        max_position_embeddings=getattr(config, "max_position_embeddings", None),
        hidden_size=dim,
        num_attention_heads=1,
        standardize_rope_params=lambda: None,
    )
    return ROPE_INIT_FUNCTIONS[rope.rope_type](like, torch.device("cpu"), seq_len=tokens)


def parameter_sets(config: Any) -> Iterator[tuple[str | None, str, Value]]:
    """(path of the dict or None, rope type, theta) for everything in the config that may say frequencies."""
    for path, given in _dicts(config):
        theta = given.get("rope_theta")
        if theta is None:
            theta = getattr(config, "rope_theta", None)
            held = Value(number=float(theta), key="rope_theta") if theta is not None else Value(number=10000.0)
        else:
            held = Value(number=float(theta), key=f"{path}.rope_theta")
        yield path, str(given.get("rope_type") or given.get("type") or "default"), held
    for key in THETA_KEYS:
        theta = stated(config, key)
        if isinstance(theta, int | float) and not isinstance(theta, bool):
            yield None, "default", Value(number=float(theta), key=key)
    yield None, "default", Value(number=10000.0)


def _dicts(config: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for key in ("rope_parameters", "rope_scaling"):
        given = getattr(config, key, None)
        if not isinstance(given, dict):
            continue
        if "rope_theta" in given or "rope_type" in given or "type" in given:
            yield key, given
        for name, below in given.items():
            if isinstance(below, dict):
                yield f"{key}.{name}", below
