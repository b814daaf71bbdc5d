"""The committed table of architectures is what the installed vLLM says."""

import json
import subprocess
from pathlib import Path

import pytest

from autoadapter.engine import find_engine
from autoadapter.engine.registry import known_versions, registry_for

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "autoadapter" / "engine" / "registry" / "architectures.json"
ASK = """
import json, sys
sys.path.insert(0, sys.argv[1])
import launcher
from vllm.model_executor.models import registry
print(json.dumps({"served": sorted(registry._VLLM_MODELS), "dropped": registry._PREVIOUSLY_SUPPORTED_MODELS}))
"""

pytestmark = pytest.mark.engine


def test_the_generator_gives_what_is_committed(tmp_path: Path) -> None:
    engine = find_engine()
    assert engine.version in known_versions(), "run scripts/generate_registry.py for this vLLM"
    table = tmp_path / "table.json"
    table.write_bytes(COMMITTED.read_bytes())
    script = ROOT / "scripts" / "generate_registry.py"
    subprocess.run([engine.python, script, "--into", table], check=True, timeout=60)
    assert table.read_text() == COMMITTED.read_text()


def test_parsing_finds_what_importing_finds() -> None:
    engine = find_engine()
    folder = ROOT / "autoadapter" / "engine"
    done = subprocess.run([engine.python, "-c", ASK, folder], capture_output=True, text=True, check=True, timeout=300)
    said = json.loads(done.stdout.splitlines()[-1])
    match = registry_for(engine.version)
    assert match.note is None, "run scripts/generate_registry.py for this vLLM"
    registry = match.registry
    assert set(said["served"]) == registry.served | registry.pooling | registry.speculative
    assert said["dropped"] == registry.dropped
