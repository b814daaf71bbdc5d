"""Weight schemes as data: rows of `schemes.yaml`, shared by the planner and the quantizers."""

import difflib
from functools import cache
from pathlib import Path
from typing import Literal

from autoadapter.artifacts import Frozen, Hardware
from autoadapter.errors import UserError
from autoadapter.tables import read_table


class SchemeRow(Frozen):
    """A row of `schemes.yaml`."""

    name: str
    title: str
    backend: str | None
    platforms: tuple[Literal["cpu", "cuda"], ...]
    min_capability: str | None = None
    max_capability: str | None = None
    needs_calibration: bool
    served_bits: int | None
    """Bits of one quantized linear weight, scales not counted; None keeps the served dtype."""
    group_sizes: tuple[int, ...] = ()
    """Preferred first; empty for per-channel schemes."""
    why: str
    source: str

    def refusal(self, hardware: Hardware) -> str | None:
        """Why this hardware cannot run the scheme, or None."""
        if hardware.kind not in self.platforms:
            return f"vLLM has no usable {self.name} kernel on {hardware.kind}"
        capability, found = _number(hardware.compute_capability), f"{hardware.name} has {hardware.compute_capability}"
        if self.min_capability and capability and capability < _number(self.min_capability):
            return f"{self.name} needs compute capability {self.min_capability}, {found}"
        if self.max_capability and capability > _number(self.max_capability):
            return f"{self.name} has no kernel above compute capability {self.max_capability}, {found}"
        return None


def _number(capability: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in capability.split(".")) if capability else ()


@cache
def schemes() -> tuple[SchemeRow, ...]:
    """All rows, in the file's order."""
    rows = read_table(Path(__file__).with_name("schemes.yaml"))
    return tuple(SchemeRow.model_validate(row) for row in rows)


def scheme(name: str) -> SchemeRow:
    """One row by name.

    Raises:
        UserError: no such scheme; the nearest is suggested.
    """
    row = next((row for row in schemes() if row.name == name), None)
    if row is None:
        known = [row.name for row in schemes()]
        near = difflib.get_close_matches(name, known, n=1)
        question = f" Did you mean {near[0]}?" if near else ""
        raise UserError(f"Unknown scheme {name!r}.{question}", hint=f"Known: {', '.join(known)}")
    return row
