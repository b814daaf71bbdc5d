"""The stage around its workers: reuse, refusals, atomicity. A stand-in interpreter plays the workers."""

import json
import os
import signal
import stat
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from autoadapter.artifacts import ModelKind, ModelProfile, OptimizedModel
from autoadapter.artifacts.model_profile import RemoteCode
from autoadapter.errors import (
    DoesNotFitError,
    MissingPartError,
    ModelNotFoundError,
    StorageError,
    UnsupportedModelError,
    UserError,
    WorkerError,
)
from autoadapter.optimize import OptimizeRequest, optimize
from autoadapter.optimize.capacity import require_disk, require_memory
from autoadapter.optimize.steps import usable_cores
from tests.unit.optimize.optimize_builders import make_census, make_plan, make_profile, make_scheme

ELEMENTS = 512

FAKE = """#!{python}
import json, pathlib, sys, time
here = pathlib.Path(__file__).parent
with (here / "calls").open("a") as calls:
    print(pathlib.Path(sys.argv[1]).stem, file=calls)
failure = here / "fail"
if failure.exists():
    sys.exit(failure.read_text())
if (here / "hang").exists():
    (here / "hanging").touch()
    time.sleep(60)
request = json.loads(pathlib.Path(sys.argv[2]).read_text())
output = pathlib.Path(request["output"])
text = json.dumps({{"a.weight": {{"dtype": "BF16", "shape": [{elements}], "data_offsets": [0, {size}]}}}}).encode()
(output / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes({size}))
(output / "config.json").write_text('{{"dtype": "bfloat16"}}')
print("@progress 0.5 half")
result = {{"tool": "fake 1", "parameters": {elements}, "unused": []}}
pathlib.Path(sys.argv[3]).write_text(json.dumps(result))
"""


@pytest.fixture
def fake_python(tmp_path: Path) -> Path:
    path = tmp_path / "bin" / "python"
    path.parent.mkdir()
    path.write_text(FAKE.format(python=sys.executable, elements=ELEMENTS, size=ELEMENTS * 2))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def calls(python: Path) -> list[str]:
    record = python.parent / "calls"
    return record.read_text().split() if record.exists() else []


@pytest.fixture
def request_for_gguf(tmp_path: Path, fake_python: Path) -> OptimizeRequest:
    source = tmp_path / "model.gguf"
    source.write_bytes(b"GGUF")
    return build(tmp_path, fake_python, gguf_profile(source))


def gguf_profile(source: Path) -> ModelProfile:
    census = make_census(source, parameters=ELEMENTS)
    return make_profile(source, kind=ModelKind.GGUF_FILE, tensors=census)


def build(tmp_path: Path, python: Path, profile: ModelProfile, scheme: str = "as_is") -> OptimizeRequest:
    return OptimizeRequest(
        profile=profile,
        plan=make_plan(profile, make_scheme(scheme)),
        reference_folder=tmp_path / "reference",
        folder=tmp_path / "plan" / "optimized",
        logs=tmp_path / "plan" / "logs",
        python=python,
    )


def leftovers(tmp_path: Path) -> list[str]:
    """Temporary folders that an attempt left behind."""
    return [path.name for path in (*tmp_path.glob(".ref*"), *(tmp_path / "plan").glob(".opt*"))]


def test_conversion_is_recorded_and_kept(request_for_gguf: OptimizeRequest, fake_python: Path, tmp_path: Path) -> None:
    seen: list[str] = []
    made = optimize(request_for_gguf, lambda text, fraction=None: seen.append(text))
    assert "half" in seen
    assert made == OptimizedModel.read(request_for_gguf.folder / "optimized.json")
    assert made.model_path == made.reference_path == str(tmp_path / "reference")
    assert made.quality is None
    assert [name for name, _, _ in made.files] == ["config.json", "model.safetensors"]
    assert made.steps[0].tool == "fake 1"
    assert made.steps[0].peak_rss_bytes > 0
    assert {finding.code for finding in made.findings} == {"optimize.dequantized"}
    assert not leftovers(tmp_path)


def test_a_finished_reference_is_reused(request_for_gguf: OptimizeRequest, fake_python: Path, tmp_path: Path) -> None:
    first = optimize(request_for_gguf)
    second = optimize(replace(request_for_gguf, folder=tmp_path / "plan2" / "optimized"))
    assert calls(fake_python) == ["convert"]
    assert second.steps == first.steps


@pytest.mark.parametrize("what", ["source", "output", "manifest"])
def test_a_stale_reference_is_made_anew(
    request_for_gguf: OptimizeRequest, fake_python: Path, tmp_path: Path, what: str
) -> None:
    optimize(request_for_gguf)
    if what == "source":
        os.utime(tmp_path / "model.gguf", ns=(1, 1))
    elif what == "output":
        (tmp_path / "reference" / "model.safetensors").write_bytes(b"cut")
    else:
        (tmp_path / "reference" / ".autoadapter.json").unlink()
    optimize(request_for_gguf)
    assert calls(fake_python) == ["convert", "convert"]


def test_the_kept_command_never_overwrites(request_for_gguf: OptimizeRequest, tmp_path: Path) -> None:
    made = optimize(request_for_gguf)
    kept = tmp_path / "plan" / "logs" / "convert.request.json"
    assert str(kept) in made.steps[0].command
    assert json.loads(kept.read_text())["output"] == "repeated-output"


def test_lost_parameters_are_an_error(tmp_path: Path, fake_python: Path) -> None:
    source = tmp_path / "model.gguf"
    source.write_bytes(b"GGUF")
    census = make_census(source, parameters=ELEMENTS * 2)
    profile = make_profile(source, kind=ModelKind.GGUF_FILE, tensors=census)
    with pytest.raises(WorkerError, match="not complete"):
        optimize(build(tmp_path, fake_python, profile))
    assert not (tmp_path / "reference").exists()
    assert not leftovers(tmp_path)


@pytest.mark.parametrize(
    ("says", "kind"),
    [
        ("ModuleNotFoundError: No module named 'gguf'", MissingPartError),
        (
            "ImportError: Please install torch and gguf>=0.10.0 to load a GGUF checkpoint. requires gguf",
            MissingPartError,
        ),
        ("OSError: [Errno 28] No space left on device", StorageError),
        ("ValueError: GGUF model with architecture odd is not supported yet.", UnsupportedModelError),
        ("ValueError: the checkpoint is damaged", WorkerError),
    ],
)
def test_failures_have_their_class(
    request_for_gguf: OptimizeRequest, fake_python: Path, tmp_path: Path, says: str, kind: type[Exception]
) -> None:
    (fake_python.parent / "fail").write_text(says)
    with pytest.raises(kind) as caught:
        optimize(request_for_gguf)
    assert type(caught.value) is kind
    assert not (tmp_path / "reference").exists()
    assert not request_for_gguf.folder.exists()
    assert not leftovers(tmp_path)


def test_an_interrupt_leaves_nothing(request_for_gguf: OptimizeRequest, fake_python: Path, tmp_path: Path) -> None:
    (fake_python.parent / "hang").touch()
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        while not (fake_python.parent / "hanging").exists():
            time.sleep(0.05)
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        optimize(request_for_gguf)
    assert not (tmp_path / "reference").exists()
    assert not request_for_gguf.folder.exists()
    assert not leftovers(tmp_path)


def test_safetensors_are_served_where_they_lie(tmp_path: Path, fake_python: Path) -> None:
    source = tmp_path / "model"
    source.mkdir()
    (source / "model.safetensors").write_bytes(b"\0" * 10)
    made = optimize(build(tmp_path, fake_python, make_profile(source)))
    assert made.model_path == str(source)
    assert made.bytes_before == made.bytes_after == 10
    assert calls(fake_python) == []
    assert not (tmp_path / "reference").exists()


def test_a_source_that_is_gone(tmp_path: Path, fake_python: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="gone"):
        optimize(build(tmp_path, fake_python, make_profile(tmp_path / "nowhere")))


def test_a_scheme_that_does_not_suit_is_refused_first(tmp_path: Path, fake_python: Path) -> None:
    with pytest.raises(DoesNotFitError, match="fp8_dynamic does not suit"):
        optimize(build(tmp_path, fake_python, make_profile(tmp_path), "fp8_dynamic"))
    assert calls(fake_python) == []


def test_own_code_needs_trust(tmp_path: Path, fake_python: Path) -> None:
    code = RemoteCode(auto_map={"AutoModelForCausalLM": "m.M"}, files=("m.py",))
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    census = make_census(tmp_path, form="pytorch", parameters=ELEMENTS)
    request = build(tmp_path, fake_python, make_profile(tmp_path, remote_code=code, tensors=census))
    with pytest.raises(UserError, match=r"m\.py") as caught:
        optimize(request)
    assert "--trust-remote-code" in (caught.value.hint or "")
    assert calls(fake_python) == []


def test_a_bad_calibration_file_is_refused_before_work(tmp_path: Path, fake_python: Path) -> None:
    request = build(tmp_path, fake_python, make_profile(tmp_path), "int8_w8a8")
    with pytest.raises(UserError, match="calibration"):
        optimize(replace(request, calibration=tmp_path / "none.jsonl"))


def test_room_is_asked_for_before_work(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="are free"):
        require_disk(tmp_path / "not" / "yet", 1 << 60, "Quantizing")
    require_disk(tmp_path, 1, "Quantizing")


def test_memory_is_asked_for_before_work(tmp_path: Path) -> None:
    huge = make_profile(tmp_path, tensors=make_census(tmp_path, parameters=10**13))
    with pytest.raises(DoesNotFitError, match="main memory"):
        require_memory(huge, "Quantizing")


@pytest.mark.parametrize(("text", "most"), [("100000 100000", 1), ("150000 100000", 1), ("50000 100000", 1)])
def test_a_cpu_quota_bounds_the_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, most: int) -> None:
    quota = tmp_path / "cpu.max"
    quota.write_text(text)
    monkeypatch.setattr("autoadapter.optimize.steps._CGROUP_CPU", quota)
    assert usable_cores() == most
    quota.write_text("max 100000")
    assert usable_cores() == len(os.sched_getaffinity(0))
