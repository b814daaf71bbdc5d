"""vLLM's own words: which `vllm serve` options exist, what they take, since which version."""

import difflib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Literal

from autoadapter.artifacts import EngineSetting, Frozen
from autoadapter.artifacts.serving_plan import SettingValue
from autoadapter.engine.versions import release
from autoadapter.errors import UserError
from autoadapter.tables import read_table

Kind = Literal["bool", "int", "float", "str", "list", "json"]
_TYPES: dict[Kind, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "list": (tuple,),
    "json": (str,),
}


class FlagRow(Frozen):
    """A row of `flags.yaml`."""

    name: str
    """Long option without dashes."""
    kind: Kind
    choices: tuple[str, ...] = ()
    """A closed set; empty when any value of the kind goes."""
    aliases: tuple[str, ...] = ()
    since: str | None = None
    """First version that has the option; None when it is older than what AutoAdapter serves."""
    until: str | None = None
    """First version without the option."""


@cache
def flags() -> tuple[FlagRow, ...]:
    """All rows, by name."""
    rows = read_table(Path(__file__).with_name("flags.yaml"))
    return tuple(FlagRow.model_validate(row) for row in rows)


@cache
def _by_name() -> dict[str, FlagRow]:
    return {name: row for row in flags() for name in (row.name, *row.aliases)}


def flag(text: str) -> FlagRow:
    """An option as people write it (`max_model_len`, `--max-model-len`) → its row.

    Raises:
        UserError: vLLM has no such option; the nearest is suggested.
    """
    name = text.strip().removeprefix("--").replace("_", "-").lower()
    row = _by_name().get(name)
    if row is None:
        near = difflib.get_close_matches(name, _by_name(), n=1)
        question = f" Did you mean {near[0]}?" if near else ""
        raise UserError(f"vLLM has no option {text!r}.{question}", hint="All options: vllm serve --help=all")
    return row


def value_problem(row: FlagRow, value: SettingValue) -> str | None:
    """Why vLLM would refuse the value, or None."""
    if not _fits(row.kind, value):
        return f"--{row.name} takes {row.kind}, not {value!r}"
    if row.choices and value not in row.choices:
        return f"--{row.name} takes one of {', '.join(row.choices)}, not {value!r}"
    if any(str(item).startswith("-") for item in _texts(value)):
        return f"--{row.name} may not have a value that starts with a dash, which vLLM reads as an option: {value!r}"
    return None


def check(settings: Iterable[EngineSetting], version: str, rows: dict[str, FlagRow] | None = None) -> tuple[str, ...]:
    """What `vllm serve` of that version would refuse, one sentence each; empty when nothing.

    Args:
        settings: planned options.
        version: release of vLLM, `0.32.0`.
        rows: the vocabulary, by default `flags.yaml`.
    """
    table = _by_name() if rows is None else rows
    return tuple(
        problem for setting in settings if (problem := _problem(setting, table.get(setting.flag), release(version)))
    )


def _problem(setting: EngineSetting, row: FlagRow | None, version: tuple[int, ...]) -> str | None:
    if row is None:
        return f"--{setting.flag} is not an option of vLLM"
    if row.since and version < release(row.since):
        return f"--{row.name} exists since vLLM {row.since}"
    if row.until and version >= release(row.until):
        return f"--{row.name} is gone since vLLM {row.until}"
    return value_problem(row, setting.value)


def _fits(kind: Kind, value: SettingValue) -> bool:
    if kind == "bool" or isinstance(value, bool):
        return kind == "bool" and isinstance(value, bool)
    return isinstance(value, _TYPES[kind])


def _texts(value: SettingValue) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ((value,) if isinstance(value, str) else ())
