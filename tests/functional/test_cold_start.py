"""What `autoadapter analyze` of a folder loads before it works: nothing heavy, and no stage that it does not run."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from autoadapter.analyze import analyze, resolve_model

SCRIPT = """
import atexit, json, sys
def tell():
    sys.stderr.write("MODULES" + json.dumps(sorted(sys.modules)))
atexit.register(tell)
sys.argv = ["autoadapter", *sys.argv[1:]]
from autoadapter.cli.app import main
main()
"""
HEAVY = {"torch", "transformers", "vllm", "gguf", "numpy", "huggingface_hub", "httpx", "tokenizers", "safetensors"}
LATER = {
    "autoadapter.optimize.stage",
    "autoadapter.verify.stage",
    "autoadapter.deploy.stage",
    "autoadapter.generate.views",
}


def test_modules_of_a_local_analysis(tiny_model: Path, tmp_path: Path) -> None:
    words = ["analyze", str(tiny_model), "-w", str(tmp_path / "w"), "--vllm-version", "0.32.0", "--json"]
    done = subprocess.run([sys.executable, "-c", SCRIPT, *words], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stderr.rpartition("MODULES")[2]))
    assert "autoadapter.pipeline" in loaded
    assert not loaded & HEAVY
    assert not loaded & LATER


def test_no_attribute_docstrings_are_looked_up() -> None:
    """Pydantic would read the source of every artifact again at each start: a third of a second."""
    from autoadapter.artifacts import Frozen

    assert "use_attribute_docstrings" not in Frozen.model_config


@pytest.fixture(scope="module")
def layouts() -> ModuleType:
    path = Path(__file__).parents[2] / "scripts" / "bench" / "layouts.py"
    spec = importlib.util.spec_from_file_location("layouts", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["layouts"] = module  # its dataclass looks itself up there
    spec.loader.exec_module(module)
    return module


def test_the_671b_layout_is_deepseek_v3(layouts: ModuleType, tmp_path: Path) -> None:
    """What the bench measures is the model that it says: 163 shards, 671 billion parameters, nothing amiss."""
    folder = layouts.write(layouts.LAYOUTS[2], tmp_path / "671B")
    assert sum(path.stat().st_blocks * 512 for path in folder.iterdir()) < 60 * 2**20, "the data are holes"
    found = analyze(resolve_model(str(folder)), vllm_version="0.32.0", platform="cuda")
    assert len(found.tensors.files) == 163 and found.tensors.tensors == 90_427
    assert found.tensors.parameters == 671_026_419_200
    assert found.memory.kv_bytes_per_token == 61 * (512 + 64) * 2
    assert not [finding for finding in found.findings if finding.level == "blocker"]
