"""Groups whose pages of different sizes lie side by side in one block, as DeepSeek-V4 has them.

Source: vLLM 0.32 `v1/core/kv_cache_utils.py` (`_get_packed_kv_cache_groups`, `_approximate_gcd`).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from autoadapter.plan.kv.spec import Group, LayerCache, ceil_div
from autoadapter.plan.kv.uniform import is_uniform


@dataclass(frozen=True)
class Bucket:
    """Caches that may share a group."""

    members: tuple[LayerCache, ...]

    @property
    def pages(self) -> dict[int, list[LayerCache]]:
        """Caches by the bytes of their pages."""
        found: dict[int, list[LayerCache]] = {}
        for member in self.members:
            found.setdefault(member.spec.page_bytes, []).append(member)
        return found

    @property
    def repeats(self) -> int:
        """Caches of the commonest page size: repeats of the pattern of layers."""
        return max(Counter(member.spec.page_bytes for member in self.members).values())

    @property
    def is_balanced(self) -> bool:
        """Whether every page size occurs equally often."""
        return len({len(members) for members in self.pages.values()}) == 1

    def widest(self, groups: int) -> int:
        """Bytes of the largest of so many groups."""
        return sum(ceil_div(len(members), groups) * page for page, members in self.pages.items())

    def split(self, groups: int) -> list[Group]:
        """So many groups, each with every page size equally often."""
        if groups == 1:
            return [Group(self.members)]
        patterns = list(zip(*self.pages.values(), strict=False))
        return [
            Group(tuple(member for pattern in patterns[start::groups] for member in pattern)) for start in range(groups)
        ]


def pack(caches: Sequence[LayerCache]) -> tuple[Group, ...]:
    """Groups that need about equally many bytes a block."""
    buckets = _buckets(caches)
    repeats = _repeats(buckets)
    counts = [_count(bucket, repeats) for bucket in buckets]
    small = [_holds_state(bucket, repeats) for bucket in buckets]
    anchor = max(
        bucket.widest(len(bucket.members) if is_small else count)
        for bucket, count, is_small in zip(buckets, counts, small, strict=True)
    )
    return tuple(
        group
        for bucket, count, is_small in zip(buckets, counts, small, strict=True)
        for group in bucket.split(_fitting(bucket, count, anchor) if is_small else count)
    )


def _buckets(caches: Sequence[LayerCache]) -> list[Bucket]:
    found: list[list[LayerCache]] = []
    for cache in caches:
        for members in found:
            if is_uniform([members[0].spec, cache.spec]):
                members.append(cache)
                break
        else:
            found.append([cache])
    return [Bucket(tuple(members)) for members in found]


def _repeats(buckets: list[Bucket]) -> int | None:
    """Repeats of the pattern in a group; None where no bucket mixes page sizes evenly."""
    balanced = [bucket for bucket in buckets if bucket.is_balanced]
    least = max((bucket.repeats for bucket in balanced if len(bucket.pages) > 1), default=0)
    return near_divisor([bucket.repeats for bucket in balanced], least) if least else None


def near_divisor(values: Sequence[int], least: int) -> int:
    """The number, at least `least`, whose multiples lie closest above the values; of equals the larger."""
    return min(range(least, max(*values, least) + 1), key=lambda size: (sum(-value % size for value in values), -size))


def _count(bucket: Bucket, repeats: int | None) -> int:
    return ceil_div(bucket.repeats, repeats) if bucket.is_balanced and repeats else 1


def _holds_state(bucket: Bucket, repeats: int | None) -> bool:
    kind = bucket.members[0].spec.kind
    return kind == "state" or (repeats is None and kind in ("sliding", "sliding_mla"))


def _fitting(bucket: Bucket, count: int, anchor: int) -> int:
    """Groups of a bucket that may be cut small, so that it does not widen the block."""
    fit = max(anchor // bucket.members[0].spec.page_bytes, 1)
    return max(count, ceil_div(len(bucket.members), fit))
