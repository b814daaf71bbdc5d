"""Environments of their own: real venv, real pip, and a package made on the spot, so that no network is needed."""

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Protocol

import pytest

from autoadapter.errors import MissingPartError, StorageError, UserError
from autoadapter.optimize import environments
from autoadapter.optimize.environments import Pins, environment, list_environments


class SetRow(Protocol):
    """Writes the one row."""

    def __call__(self, *requirements: str, disk_bytes: int = 1) -> Pins: ...


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A package `aa-probe` 1.0."""
    path = tmp_path / "aa_probe-1.0-py3-none-any.whl"
    info = "aa_probe-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("aa_probe.py", "VALUE = 7\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: aa-probe\nVersion: 1.0\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SetRow:
    """Make one row the whole of `environments.yaml`, below a home of its own, and keep pip off the network."""
    monkeypatch.setenv("AUTOADAPTER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("AUTOADAPTER_TOY_PYTHON", raising=False)

    def set_row(*requirements: str, disk_bytes: int = 1) -> Pins:
        row = Pins(name="toy", probe="aa-probe", disk_bytes=disk_bytes, requirements=requirements, why="", source="")
        monkeypatch.setattr(environments, "pins", lambda: (row,))
        return row

    return set_row


def folders(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "home" / "envs").iterdir() if path.is_dir()]


def test_created_once_and_rebuilt_when_half_done(only: SetRow, wheel: Path, tmp_path: Path) -> None:
    only(str(wheel))
    assert [state.ready for state in list_environments()] == [False]
    seen: list[str] = []
    python = environment("toy", lambda text, fraction=None: seen.append(text))
    said = subprocess.run([python, "-c", "import aa_probe; print(aa_probe.VALUE)"], capture_output=True, text=True)
    assert said.stdout == "7\n"
    assert any("creating" in line for line in seen)
    assert [(state.ready, state.python) for state in list_environments()] == [(True, python)]

    seen.clear()
    assert environment("toy", lambda text, fraction=None: seen.append(text)) == python
    assert not seen

    (python.parents[1] / ".complete").unlink()
    (python.parents[1] / "rubbish").touch()
    assert environment("toy") == python
    assert not (python.parents[1] / "rubbish").exists()


def test_a_cpu_build_that_pip_does_not_find_is_no_obstacle(
    only: SetRow, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = only(str(wheel)).model_copy(update={"cpu_torch": "torch==0.0.1+nowhere"})
    monkeypatch.setattr(environments, "pins", lambda: (row,))
    monkeypatch.setattr(environments, "gpu_names", lambda: ())
    monkeypatch.delenv("TORCH_INDEX", raising=False)
    assert environment("toy").exists()


@pytest.mark.parametrize(("gpus", "installed"), [((), True), (("NVIDIA H200",), False)])
def test_the_cpu_build_is_for_machines_without_a_gpu(
    only: SetRow, wheel: Path, monkeypatch: pytest.MonkeyPatch, gpus: tuple[str, ...], installed: bool
) -> None:
    row = only("pip").model_copy(update={"cpu_torch": str(wheel)})
    monkeypatch.setattr(environments, "pins", lambda: (row,))
    monkeypatch.setattr(environments, "gpu_names", lambda: gpus)
    done = subprocess.run([environment("toy"), "-c", "import aa_probe"], capture_output=True)
    assert (done.returncode == 0) is installed


def test_pips_words_reach_the_user(only: SetRow, tmp_path: Path) -> None:
    only("aa-no-such-package==9")
    with pytest.raises(MissingPartError) as caught:
        environment("toy")
    assert "aa-no-such-package" in str(caught.value)
    assert "AUTOADAPTER_TOY_PYTHON" in (caught.value.hint or "")
    assert folders(tmp_path) == []


def test_an_unknown_name_is_refused(only: SetRow) -> None:
    only("x")
    with pytest.raises(UserError, match="'toi'") as caught:
        environment("toi")
    assert "toy" in (caught.value.hint or "")


def test_no_room_no_start(only: SetRow, tmp_path: Path) -> None:
    only("x", disk_bytes=1 << 60)
    with pytest.raises(StorageError, match="toy environment"):
        environment("toy")


def test_an_interpreter_can_be_named(only: SetRow, monkeypatch: pytest.MonkeyPatch) -> None:
    row = only("x").model_copy(update={"probe": "pytest"})
    monkeypatch.setattr(environments, "pins", lambda: (row,))
    monkeypatch.setenv("AUTOADAPTER_TOY_PYTHON", sys.executable)
    assert environment("toy") == Path(sys.executable)
    assert list_environments()[0].source == "AUTOADAPTER_TOY_PYTHON"


@pytest.mark.parametrize("python", ["/nonexistent/python", sys.executable])
def test_a_named_interpreter_must_fit(only: SetRow, monkeypatch: pytest.MonkeyPatch, python: str) -> None:
    only("x")
    monkeypatch.setenv("AUTOADAPTER_TOY_PYTHON", python)
    with pytest.raises(UserError, match="AUTOADAPTER_TOY_PYTHON"):
        environment("toy")


def test_other_pins_make_another_environment(only: SetRow) -> None:
    assert only("a==1").digest != only("a==2").digest


def test_the_shipped_pins_are_exact() -> None:
    for row in environments.pins():
        assert all("==" in requirement for requirement in row.requirements)
        assert row.override == f"AUTOADAPTER_{row.name.upper()}_PYTHON"
