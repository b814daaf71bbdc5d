"""The wheel alone, in an empty environment without torch: templates inside, light commands work, extras are named."""

import json
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.functional.conftest import write_tiny_model

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`autoadapter` of an environment that holds the wheel and its base dependencies."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", str(wheel)]
    subprocess.run(pip, check=True, capture_output=True)
    return folder / "bin" / "autoadapter"


def test_every_template_and_data_file_is_inside(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    templates = {
        f"autoadapter/_templates/{path.relative_to(ROOT / 'templates')}" for path in ROOT.glob("templates/**/*.j2")
    }
    data = {
        str(path.relative_to(ROOT))
        for pattern in ("*.yaml", "*.json", "*.txt", "py.typed")
        for path in (ROOT / "autoadapter").rglob(pattern)
    }
    assert templates and data
    assert not (templates | data) - inside


def test_the_base_install_is_light(installed: Path) -> None:
    listed = subprocess.run(
        [installed.parent / "python", "-m", "pip", "list", "--format", "json"],
        capture_output=True,
        text=True,
        check=True,
    )
    names = {row["name"].lower() for row in json.loads(listed.stdout)}
    assert not names & {"torch", "transformers", "vllm", "numpy", "gguf"}


def test_light_commands_work_and_heavy_ones_name_their_extra(installed: Path, tmp_path: Path) -> None:
    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([installed, *words], cwd=tmp_path, capture_output=True, text=True)

    write_tiny_model(tmp_path / "tiny")
    assert call("--help").returncode == 0
    analyzed = call("analyze", "tiny", "-w", "ws")
    assert analyzed.returncode == 0, analyzed.stderr
    generated = call("generate", "-w", "ws", "--hardware", "l4", "--scheme", "as_is")
    assert generated.returncode == 0, generated.stderr
    (adapter,) = (tmp_path / "ws" / "plans").glob("*/adapter")
    assert (adapter / "vllm" / "config.yaml").exists()
    assert (adapter / "tokenizer" / "tokenizer_adapter.py").exists()
    assert call("optimize", "-w", "ws").returncode == 0
    deployed = call("deploy", "-w", "ws", "--allow-untested")
    assert deployed.returncode == 0, deployed.stderr
    assert (adapter.parent / "bundle" / "kubernetes" / "deployment.yaml").exists()
    missing = call("test", "-w", "ws")
    assert missing.returncode == 5
    assert "pip install 'autoadapter[engine]'" in missing.stderr
    assert call("doctor").returncode == 0
