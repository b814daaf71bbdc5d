"""Which releases of transformers know a model type: data of `scripts/generate_transformers_versions.py`."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

DATA = Path(__file__).with_name("transformers_versions.json")


@dataclass(frozen=True)
class KnownType:
    """Releases of transformers that have a configuration class for a model type."""

    first: str
    """The first one; for the oldest in the table, that one or any before it."""
    last: str | None
    """The last one, None when the newest in the table still has it."""


@dataclass(frozen=True)
class _Table:
    types: dict[str, KnownType]
    vllm: frozenset[str]
    oldest: str
    newest: str


@cache
def _table() -> _Table:
    data = json.loads(DATA.read_bytes())
    last = {name: version for version, names in data["last"].items() for name in names}
    types = {name: KnownType(version, last.get(name)) for version, names in data["first"].items() for name in names}
    return _Table(types, frozenset(data["vllm"]), data["versions"][0], data["versions"][-1])


def known_type(model_type: str) -> KnownType | None:
    """Releases that know a model type; None when none in the table does."""
    return _table().types.get(model_type)


def oldest_transformers() -> str:
    """The oldest release in the table; what it knows may be older than that."""
    return _table().oldest


def newest_transformers() -> str:
    """The newest release in the table."""
    return _table().newest


def vllm_reads(model_type: str) -> bool:
    """Whether vLLM carries a configuration class of its own for a model type."""
    return model_type in _table().vllm
