"""What vLLM's Python API is called in the release that a plugin is rendered for."""

from functools import cache
from pathlib import Path

from autoadapter.artifacts import Frozen
from autoadapter.engine.versions import release, within
from autoadapter.errors import UnsupportedModelError
from autoadapter.tables import read_table

OLDEST = "0.25.0"
"""First release whose API is known."""
NEXT = "0.34.0"
"""First release whose API is not known yet."""


class ApiRow(Frozen):
    """A row of `api.yaml`."""

    name: str
    value: str
    since: str | None = None
    until: str | None = None


@cache
def _rows() -> tuple[ApiRow, ...]:
    return tuple(ApiRow.model_validate(row) for row in read_table(Path(__file__).with_name("api.yaml")))


def api(name: str, version: str) -> str:
    """The word for `name` in a release of vLLM.

    Raises:
        UnsupportedModelError: the release's word is not known.
    """
    found = [row.value for row in _rows() if row.name == name and within(version, row.since, row.until)]
    if not found:
        raise UnsupportedModelError(
            f"What vLLM {version} calls its {name.replace('_', ' ')} is not known.",
            hint="Render for vLLM 0.32 or 0.25, or add the row to autoadapter/generate/plugin/api.yaml.",
        )
    return found[0]


def check_known(version: str) -> None:
    """Refuse a release whose API was never read.

    Raises:
        UnsupportedModelError: it is older or newer than those that `api.yaml` covers.
    """
    if not within(version, OLDEST, NEXT):
        raise UnsupportedModelError(
            f"Plugins can be rendered for vLLM {OLDEST} up to {NEXT} (not included), not for {version}.",
            hint="Choose a release in that range: --vllm-version 0.32.0",
        )


def next_minor(version: str) -> str:
    """`0.32.0` → `0.33`: where the range of releases ends that a plugin is made for."""
    major, minor, _ = release(version)
    return f"{major}.{minor + 1}"
