"""Releases of vLLM, in order."""

import re

from autoadapter.errors import UserError

_RELEASE = re.compile(r"v?(\d{1,9}(?:\.\d{1,9})*)")


def release(version: str) -> tuple[int, ...]:
    """`0.31.0rc1+cu130` → (0, 31, 0): the release that a version is of or leads to.

    Raises:
        UserError: the text does not begin with a number.
    """
    found = _RELEASE.match(version.strip())
    if found is None:
        raise UserError(f"{version!r} is not a version of vLLM.", hint="Example: --vllm-version 0.32.0")
    numbers = tuple(map(int, found[1].split(".")[:3]))
    return numbers + (0,) * (3 - len(numbers))


def within(version: str, since: str | None, until: str | None) -> bool:
    """Whether a row holds: from the release `since` on, before the release `until`; None is open."""
    number = release(version)
    return (since is None or number >= release(since)) and (until is None or number < release(until))
