"""Sizes that no model has: refused in one sentence before an axis divides by them."""

from typing import NamedTuple

from autoadapter.analyze import kv_cache
from autoadapter.analyze.axes import context, embedding, mlp, moe, rope
from autoadapter.analyze.config import Config
from autoadapter.analyze.layers import LAYERS, layer_count, layer_kinds
from autoadapter.analyze.rope_parameters import rope_parameters
from autoadapter.errors import BrokenCheckpointError

MOST_TOKENS = 2**31 - 1
"""vLLM holds positions in 32 bits."""


class _Limit(NamedTuple):
    """Aliases of a size, and the least and most that it can be."""

    keys: tuple[str, ...]
    least: int
    most: int


LIMITS = (
    _Limit(LAYERS, 1, 2**63),
    _Limit(kv_cache.HIDDEN, 1, 2**20),
    _Limit(embedding.VOCABULARY, 1, 2**28),
    _Limit(kv_cache.HEAD_DIM, 0, 2**16),
    _Limit(mlp.WIDTH, 0, 2**28),
    _Limit(moe.WIDTH, 0, 2**28),
    _Limit(("kv_lora_rank",), 0, 2**20),
    _Limit(("qk_rope_head_dim",), 0, 2**16),
    *(_Limit((key,), 0, 2**20) for key in moe.EXPERTS),
    *(_Limit((key,), 0, MOST_TOKENS) for key in context.KEYS),
)
"""Far beyond every model that exists; what is larger is a mistake, and sums over it would mean nothing."""
OF_ATTENTION = (_Limit(kv_cache.HEADS, 1, 2**16), _Limit(kv_cache.KV_HEADS, 1, 2**16))
"""Only where a layer attends: Mamba's configs may state no heads."""
POSITIVE = ("factor", "rope_theta")


def check_sizes(config: Config) -> None:
    """Look at every size that the axes calculate with.

    Raises:
        BrokenCheckpointError: with the key, its value and the bound.
    """
    for limit in LIMITS:
        _check(config, limit)
    kinds = layer_kinds(config, layer_count(config)).kinds
    if any(kind in kv_cache.CACHED for kind in kinds):
        for limit in OF_ATTENTION:
            _check(config, limit)
    for scaling in rope_parameters(config):
        _check_positive(scaling, *POSITIVE)
    _check_positive(config, *rope.THETA)


def _check(config: Config, limit: _Limit) -> None:
    size = config.integer(*limit.keys)
    if size is None or limit.least <= size <= limit.most:
        return
    key = config.found(*limit.keys)
    bound = f"less than the {limit.least}" if size < limit.least else f"more than the {limit.most}"
    problem = f"{key} is {size}, {bound} that a model can have"
    raise BrokenCheckpointError(config.file, problem, hint=f"Mend {key} in the file.")


def _check_positive(config: Config, *keys: str) -> None:
    for key in keys:
        number = config.number(key)
        if number is not None and number <= 0:
            problem = f"{config.source(key)} is {number:g}, and it must be above 0"
            raise BrokenCheckpointError(config.file, problem, hint=f"Mend {key} in the file.")
