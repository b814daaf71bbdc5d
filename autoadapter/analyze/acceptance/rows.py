"""Rows of `limits.yaml` and `schemes.yaml`: which quantized checkpoints vLLM takes."""

from functools import cache
from pathlib import Path
from typing import Literal

import yaml

from autoadapter.artifacts import Frozen

Scalar = bool | int | str | None
ANY = "*"


class Limit(Frozen):
    """Values of some keys of a quantization config that vLLM takes."""

    methods: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]
    """Each with its older names."""
    served: tuple[tuple[Scalar, ...], ...] = ()
    """Values of the keys, `*` for any; empty where the keys must be there, that is all."""
    says: str
    since: str | None = None
    """First vLLM release that the row speaks of."""
    until: str | None = None
    """First one that it speaks of no more."""
    source: str

    def takes(self, values: tuple[Scalar, ...]) -> bool:
        """Whether vLLM takes these values of the keys; 4 is not true, and 1 is not either."""
        return any(all(_fits(one, other) for one, other in zip(values, row, strict=True)) for row in self.served)


class Scheme(Frozen):
    """A kind of compressed-tensors group that vLLM has a class for."""

    name: str
    formats: tuple[str, ...] = ()
    """Of the group or of the whole; empty for any."""
    weights: dict[str, tuple[Scalar, ...]]
    inputs: Literal["none"] | dict[str, tuple[Scalar, ...]] | None
    """`none` without quantized activations, None for any or none."""


def _fits(value: Scalar, wanted: Scalar) -> bool:
    return wanted == ANY or (type(value) is type(wanted) and value == wanted)


@cache
def limits() -> tuple[Limit, ...]:
    """Rows of `limits.yaml`."""
    return tuple(Limit.model_validate(row) for row in _rows("limits.yaml"))


@cache
def schemes() -> tuple[Scheme, ...]:
    """Rows of `schemes.yaml`."""
    return tuple(Scheme.model_validate(row) for row in _rows("schemes.yaml"))


def _rows(name: str) -> list[dict[str, object]]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    try:
        rows: list[dict[str, object]] = loader.get_single_data()
    finally:
        loader.dispose()
    return rows
