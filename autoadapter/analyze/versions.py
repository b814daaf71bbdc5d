"""Release numbers, compared by their leading numbers: `4.57.1`, `5.0.0rc2`, `5.1.0.dev0`, `0.32.0+cpu`."""

import re

NUMBERS = re.compile(r"\d{1,6}(?:\.\d{1,6}){0,3}")


def release(version: str) -> tuple[int, ...] | None:
    """Leading numbers without zeros at the end; None when the text starts with none."""
    match = NUMBERS.match(version.strip().lstrip("v"))
    if match is None:
        return None
    numbers = [int(part) for part in match[0].split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def older(version: str, other: str) -> bool:
    """Whether a release came before another. False where one of them is no release number.

    Source checkouts and candidates (`5.0.0.dev0`, `5.0.0rc1`) count as their release: they have its features.
    """
    mine, theirs = release(version), release(other)
    return mine is not None and theirs is not None and mine < theirs
