"""Numbers that a clone's config must state, as the real model has others."""

from collections.abc import Iterable
from typing import Any

from autoadapter.artifacts.decoder import Value
from autoadapter.probe.workers.fit.binding import bind, stated
from autoadapter.probe.workers.fit.fitted import UnexplainedError
from autoadapter.probe.workers.scene import Block

HEADS = ("num_attention_heads", "n_head", "num_heads", "n_heads", "attention_heads", "decoder_attention_heads")
KV_HEADS = (
    "num_key_value_heads",
    "num_kv_heads",
    "n_head_kv",
    "attn_config.kv_n_heads",
    "num_query_groups",
    "multi_query_group_num",
)
HEAD_DIM = ("head_dim", "attention_head_dim", "attention_head_size", "kv_channels", "d_kv")
SCALE = (
    "attention_multiplier",
    "attn_scale",
    "attention_scale",
    "attn_config.softmax_scale",
    "scaling",
    "attn_scaling",
)
SCALE_ROOT = ("query_pre_attn_scalar", "qk_head_dim", *HEAD_DIM)
ROUNDING = 3e-6


def sized(config: Any, number: int, keys: Iterable[str], words: tuple[str, ...], block: Block) -> Value:
    """A size with the key that states it: one of `keys`, else any with one of `words` in it, also layer by layer.

    Raises:
        UnexplainedError: no key states it; the number would be the clone's.
    """
    known = tuple(keys)
    held = config.to_dict() if hasattr(config, "to_dict") else vars(config)
    others = sorted(key for key in held if key not in known and any(word in key for word in words))
    lists = [f"{key}.{block.layer}" for key in others if isinstance(held[key], list | tuple)]
    found = bind(config, number, (*known, *others, *lists))
    if found.key is None:
        why = f"{number} is a size that no config key with {' or '.join(words)} states"
        raise UnexplainedError(block.module, (), why)
    return found


def snapped(number: float, candidates: Iterable[float]) -> float:
    """The candidate, or its reciprocal, that the number is within rounding of; else the number itself."""
    for candidate in (1.0, *candidates):
        for exact in (candidate, 1 / candidate if candidate else 0.0):
            if abs(number - exact) <= ROUNDING * abs(exact):
                return exact
    return number


def numbers(config: Any, keys: Iterable[str]) -> list[float]:
    """What the config states at the keys."""
    found = [stated(config, key) for key in keys]
    return [float(value) for value in found if isinstance(value, int | float) and not isinstance(value, bool)]


def fit_scale(config: Any, number: float, dim: int, module: str) -> Value:
    """What multiplies q · k, bound to what states it; without a key it is 1 or 1/√dim.

    Raises:
        UnexplainedError: nothing states it.
    """
    roots = [root**-0.5 for root in numbers(config, SCALE_ROOT) if root > 0]
    exact = snapped(number, [dim**-0.5, *numbers(config, SCALE), *roots])
    if exact == 1.0:
        return Value(number=1.0)
    plain = abs(exact - dim**-0.5) <= ROUNDING * exact
    own = bind(config, exact, SCALE)
    found = own if own.key else bind(config, exact, SCALE_ROOT, forms=("inverse_square_root",))
    head = bind(config, exact, HEAD_DIM, forms=("inverse_square_root",))
    found = head if plain and head.key and found.key != "query_pre_attn_scalar" else found
    found = found if found.key else bind(config, exact, HEAD_DIM, forms=("reciprocal",))
    if found.key is None and not plain:
        raise UnexplainedError(
            module, (("1/√head_dim", abs(exact / dim**-0.5 - 1)),), f"a scale of {exact:.6g} that no key states"
        )
    return found
