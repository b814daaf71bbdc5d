"""Rules that hold from a vLLM release on."""

import re


def at_least(version: str, first: str) -> bool:
    """Whether `version` is `first` or newer; letters and local parts (`+cpu`, `rc1`) do not count."""
    return _numbers(version) >= _numbers(first)


def _numbers(version: str) -> tuple[int, ...]:
    parts = [re.match(r"\d+", part) for part in version.partition("+")[0].split(".")[:3]]
    return tuple(int(part[0]) if part else 0 for part in parts)
