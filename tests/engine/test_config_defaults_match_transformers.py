"""The committed defaults of configuration classes are those of the transformers and vLLM beside this interpreter."""

import subprocess
import sys
from pathlib import Path

import pytest

from autoadapter.analyze.class_defaults import DATA

SCRIPT = Path(__file__).parents[2] / "scripts" / "generate_config_defaults.py"


@pytest.mark.engine
def test_committed_defaults_are_what_the_script_generates(tmp_path: Path) -> None:
    made = tmp_path / "defaults.json"
    subprocess.run([sys.executable, str(SCRIPT), "--into", str(made)], check=True, capture_output=True, timeout=300)
    assert made.read_bytes() == DATA.read_bytes()
