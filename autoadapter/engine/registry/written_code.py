"""For which architectures rendered model code has been proven: data of `scripts/generate_written_code.py`."""

import json
from functools import cache
from pathlib import Path

from autoadapter.artifacts import Frozen

DATA = Path(__file__).with_name("written_code.json")


class WrittenCode(Frozen):
    """What the last conformance run said of route `generated`."""

    source: str
    """The report that this is taken from, in the repository."""
    vllm_version: str
    proven: dict[str, float]
    """Architecture → largest difference of a log-probability over the whole vocabulary."""
    refused: dict[str, str]
    """Architecture → the block that could not be explained or rendered."""


@cache
def written_code() -> WrittenCode:
    """The shipped table."""
    return WrittenCode.model_validate(json.loads(DATA.read_bytes()))
