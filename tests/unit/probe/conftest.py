"""Remote code in tests of probing."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from transformers import dynamic_module_utils


@pytest.fixture
def own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cache for remote code that is gone after the test."""
    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    _forget()
    yield
    _forget()


def _forget() -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "transformers_modules"]:
        del sys.modules[name]
