"""Reads `data/*.yaml`: one row per finding code. A code may hold `*` where it names a check or a field.

Known issues of vLLM's releases bring their own words along: their rows are made from `engine/registry`.
"""

import difflib
import fnmatch
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from autoadapter.artifacts import Frozen, Level
from autoadapter.engine.registry import known_issues
from autoadapter.errors import UserError
from autoadapter.tables import read_table


class Explanation(Frozen):
    """A row of the catalogue."""

    code: str
    """As findings carry it, `room.topic`; `verify.*-not-run` speaks of all checks."""
    levels: tuple[Level, ...]
    """Levels it is raised with."""
    title: str
    meaning: str
    """What was seen, and why it matters."""
    remedy: str
    """What to do."""


@cache
def explanations() -> tuple[Explanation, ...]:
    """All rows, by code."""
    files = sorted(Path(__file__).with_name("data").glob("*.yaml"))
    rows = [Explanation.model_validate(row) for path in files for row in read_table(path)]
    return tuple(sorted([*rows, *_issues()], key=lambda row: row.code))


def _issues() -> Iterator[Explanation]:
    codes = dict.fromkeys(issue.code for issue in known_issues())
    for code in codes:
        mine = [issue for issue in known_issues() if issue.code == code]
        yield Explanation(
            code=code,
            levels=tuple(dict.fromkeys(issue.level for issue in mine)),
            title=f"Known issue: {code.partition('.')[2].replace('-', ' ')}",
            meaning=" ".join(dict.fromkeys(issue.message for issue in mine)),
            remedy=" ".join(dict.fromkeys(issue.remedy or "See the source." for issue in mine)),
        )


def explain(code: str) -> Explanation:
    """The row that explains a code.

    Raises:
        UserError: no row does; the nearest codes are suggested.
    """
    wanted = code.strip().lower()
    exact = [row for row in explanations() if row.code == wanted]
    found = exact or [row for row in explanations() if fnmatch.fnmatchcase(wanted, row.code)]
    if found:
        return found[0]
    near = _near(wanted, [row.code for row in explanations()])
    question = f" Did you mean {' or '.join(near)}?" if near else ""
    example = near[0] if near else "tokenizer.eos-conflict"
    raise UserError(f"No finding has the code {code!r}.{question}", hint=f"autoadapter analyze --explain {example}")


def _near(wanted: str, known: list[str]) -> list[str]:
    """Codes that begin so, else those that are spelt alike, else those whose topic or room is named."""
    begin = [code for code in known if wanted and code.startswith(wanted)]
    alike = difflib.get_close_matches(wanted, known, n=3, cutoff=0.6)
    words = [code for code in known if wanted in code.split(".")]
    return (begin or alike or words)[:3]
