"""Widths of a table's columns, so that no word and no number is broken."""

from collections.abc import Collection, Sequence

LEAST_NAME = 12
"""Characters that are left of a shortened name."""


def column_widths(rows: Sequence[Sequence[str]], room: int, whole: Collection[str] = frozenset()) -> list[int] | None:
    """Widths that hold every word whole and sum up to `room` at most; None where there are none.

    Args:
        rows: cells; the first row is the heading.
        room: characters for all columns, the gaps between them not counted.
        whole: headings of columns whose cells stay on one line.
    """
    columns = list(zip(*rows, strict=True))
    least = [
        max((len(cell) if column[0] in whole else _longest_word(cell) for cell in column), default=0)
        for column in columns
    ]
    widths = [max((len(cell) for cell in column), default=0) for column in columns]
    while sum(widths) > room:
        spare = [width - floor for width, floor in zip(widths, least, strict=True)]
        if not any(spare):
            return None
        slack = [width if extra else 0 for width, extra in zip(widths, spare, strict=True)]
        widths[slack.index(max(slack))] -= 1
    return widths


def _longest_word(cell: str) -> int:
    return max((len(word) for word in cell.split()), default=0)


def shortened(name: str, width: int) -> str:
    """A name that may be cut in its middle: `Llama-4-Maveri…Instruct`; its end tells variants apart."""
    if len(name) <= width:
        return name
    tail = (width - 1) // 2
    return f"{name[: width - 1 - tail]}…{name[len(name) - tail :] if tail else ''}"
