"""What vLLM's `KVCacheSpec` says of one cache: the bytes of its blocks and how many of them a request takes.

Source: vLLM 0.32 `v1/kv_cache_interface.py`.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Kind = Literal["full", "mla", "sliding", "sliding_mla", "chunked", "state"]
"""`FullAttentionSpec`, `MLAAttentionSpec`, `SlidingWindowSpec`, `SlidingWindowMLASpec`, `ChunkedLocalAttentionSpec`,
`MambaSpec`."""
EVERY_TOKEN: frozenset[Kind] = frozenset({"full", "mla"})
WINDOWS: frozenset[Kind] = frozenset({"sliding", "sliding_mla"})


def ceil_div(value: int, by: int) -> int:
    """Quotient of whole numbers, rounded up."""
    return -(-value // by)


@dataclass(frozen=True)
class Reach:
    """How far one request reaches."""

    tokens: int
    in_flight: int
    context_parallel: int
    state_blocks: int
    retained: int


@dataclass(frozen=True)
class Spec:
    """One cache of one layer on one rank. Equal specs may share a group."""

    kind: Kind
    block_size: int
    """Tokens."""
    row_bytes: int
    """Of one entry, all heads of the rank; of a `state` the whole of it."""
    identity: tuple[int | str, ...] = ()
    """What else must agree before vLLM calls two specs the same: heads, widths, dtype, role."""
    window: int | None = None
    """Tokens; kept when a window is held in full."""
    chunk: int | None = None
    """Tokens of a chunk; kept when chunks are held in full."""
    tokens_per_entry: int = 1
    alignment: int | None = None
    """Bytes that a page is rounded up to."""
    padded_bytes: int | None = None
    """Size that a page was padded to."""

    @cached_property
    def page_bytes(self) -> int:
        """Bytes of one block of this cache."""
        if self.padded_bytes is not None:
            return self.padded_bytes
        if self.kind == "state":
            return self.row_bytes
        plain = self.row_bytes * (self.block_size // self.tokens_per_entry)
        return ceil_div(plain, self.alignment) * self.alignment if self.alignment else plain

    @property
    def token_bytes(self) -> int:
        """Bytes of one token, rounded up where several share an entry."""
        return ceil_div(self.row_bytes, self.tokens_per_entry)

    def blocks(self, reach: Reach) -> int:
        """Blocks that one request takes."""
        if self.kind == "state":
            return reach.state_blocks
        if self.kind == "chunked":
            return ceil_div(min((self.chunk or 0) + reach.in_flight, reach.tokens), self.block_size)
        if self.kind in WINDOWS:
            held = (self.window or 0) - 1 + reach.retained + reach.in_flight
            return ceil_div(min(held, reach.tokens), self.block_size) + 1
        return ceil_div(ceil_div(reach.tokens, reach.context_parallel), self.block_size)


@dataclass(frozen=True, slots=True)
class LayerCache:
    """A spec and the decoder layer that it belongs to."""

    layer: int
    spec: Spec


@dataclass(frozen=True)
class Group:
    """Caches that share a block table."""

    members: tuple[LayerCache, ...]

    @property
    def block_size(self) -> int:
        """Tokens of its blocks."""
        return self.members[0].spec.block_size

    @property
    def kinds(self) -> frozenset[Kind]:
        """Kinds of its specs."""
        return frozenset(member.spec.kind for member in self.members)

    @cached_property
    def specs(self) -> tuple[Spec, ...]:
        """Its different specs."""
        return tuple(dict.fromkeys(member.spec for member in self.members))

    def page_bytes(self, layers: range) -> int:
        """Bytes that one block takes in these layers."""
        return sum(member.spec.page_bytes for member in self.members if member.layer in layers)
