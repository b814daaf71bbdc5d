"""What sliding windows save: a layer that slides holds its window and the tokens in flight, however long the request.

Source: vLLM 0.32 `v1/kv_cache_interface.py` `SlidingWindowSpec.max_admission_blocks_per_request`,
`v1/core/kv_cache_utils.py` `_get_kv_cache_groups_uniform_page_size` (padding of groups) and `config/vllm.py`
`max_in_flight_tokens`. With one batch in flight, as in vLLM 0.24, it gives the tokens that version printed for
gemma-4-31B on an H200 (tests/unit/plan/test_windows.py).
"""

from dataclasses import dataclass

from autoadapter.artifacts import ModelProfile
from autoadapter.plan.census import NO_ATTENTION

BATCHES_IN_FLIGHT = 2
"""Asynchronous scheduling, vLLM 0.32's default, overlaps two batches; each further pipeline stage adds one."""
SIMILAR = 1.5
"""Below this ratio of the commoner to the rarer kind of layers vLLM makes groups as large as the commoner kind."""


@dataclass(frozen=True)
class KvCost:
    """What tokens of one request take on one device, bytes."""

    whole: int
    """Per token, in layers that keep every token."""
    sliding: int
    """Per token, in layers that keep a window."""
    held: int
    """Tokens that a sliding layer holds at most; 0 when none slides."""

    def request_bytes(self, tokens: int) -> int:
        """Bytes of a request of so many tokens."""
        return tokens * self.whole + min(tokens, self.held) * self.sliding

    def longest(self, pool: int, block: int) -> int | None:
        """Tokens of the longest request that a pool of bytes holds, in whole blocks; None when there is no limit."""
        alike = max(0, pool) // ((self.whole + self.sliding) * block) * block
        if alike < self.held or not self.sliding:
            return alike
        if not self.whole:
            return None
        return (pool - self.held * self.sliding) // (self.whole * block) * block


def slides(profile: ModelProfile) -> bool:
    """Whether some layers keep a window. Chunked layers do not: vLLM turns its hybrid KV cache manager off for them."""
    attention = profile.attention
    has_window = attention.sliding_window is not None and profile.memory.kv_window_bytes_per_token > 0
    return has_window and "chunked_attention" not in attention.layer_types


def held_tokens(profile: ModelProfile, in_flight: int, block: int) -> int:
    """Tokens that a sliding layer holds at most: the window and what is in flight, in blocks, and one block more."""
    tokens = (profile.attention.sliding_window or 0) - 1 + in_flight
    return (-(-tokens // block) + 1) * block


def padding(profile: ModelProfile) -> tuple[float, float]:
    """By how much vLLM inflates whole and sliding layers, which it puts into groups of equal size."""
    kinds = profile.attention.layer_types
    sliding = kinds.count("sliding_attention")
    whole = sum(kind not in NO_ATTENTION for kind in kinds) - sliding
    if not sliding or not whole:
        return 1.0, 1.0
    few, many = sorted((sliding, whole))
    group = many if many < few * SIMILAR else few
    return -(-whole // group) * group / whole, -(-sliding // group) * group / sliding
