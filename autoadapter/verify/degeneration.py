"""Tells an answer that got stuck, or never began, from one that is merely short."""

from collections.abc import Sequence

SHORTEST = 24
"""Tokens below which nothing is said: a short answer may repeat a digit."""
LONGEST_RUN = 12
"""Equal tokens in a row that no prose or code has."""
FEWEST_DISTINCT = 0.2
"""Share of distinct tokens; a loop of four tokens over 48 has 0.08, English prose of that length 0.6 and more."""


def is_degenerate(ids: Sequence[int]) -> bool:
    """Whether an answer of token ids is nothing at all, or one token, or a short loop, over and over."""
    if not ids:
        return True
    if len(ids) < SHORTEST:
        return False
    return longest_run(ids) >= LONGEST_RUN or len(set(ids)) / len(ids) < FEWEST_DISTINCT


def longest_run(ids: Sequence[int]) -> int:
    """Length of the longest stretch of one and the same token."""
    longest = current = 0
    previous: int | None = None
    for token in ids:
        current = current + 1 if token == previous else 1
        longest, previous = max(longest, current), token
    return longest
