"""Reads `data/*.yaml`. A condition is a closed set of keys; YAML holds no expressions."""

from functools import cache
from pathlib import Path

from autoadapter.artifacts import Frozen
from autoadapter.tables import read_table


class Match(Frozen):
    """Which models a family file speaks of: by what their config.json says, never by the repository's name."""

    architectures: tuple[str, ...] = ()
    model_types: tuple[str, ...] = ()


class FamilySetting(Frozen):
    """A `vllm serve` option that practice knows and the checkpoint does not say."""

    flag: str
    value: bool | int | float | str
    why: str
    source: str


class Family(Frozen):
    """One file of `data/`."""

    name: str
    match: Match
    settings: tuple[FamilySetting, ...]


@cache
def families() -> tuple[Family, ...]:
    """All family files, by file name."""
    folder = Path(__file__).with_name("data")
    return tuple(Family.model_validate(read_table(path)) for path in sorted(folder.glob("*.yaml")))


def settings_for(architecture: str, model_type: str) -> tuple[tuple[str, FamilySetting], ...]:
    """Pairs of (family name, setting) that match."""
    return tuple(
        (family.name, setting)
        for family in families()
        if architecture in family.match.architectures or model_type in family.match.model_types
        for setting in family.settings
    )
