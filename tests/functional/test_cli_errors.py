"""Bad input: one clear sentence, the next command, the right exit code, nothing lost."""

import json
import sys
import venv
from pathlib import Path

import pytest

from tests.functional.conftest import CONFIG, Command, llama_shapes, write_safetensors


def sentences(err: str) -> tuple[str, str]:
    """(error, hint) as printed."""
    lines = [line for line in err.splitlines() if line.startswith(("error:", "try:"))]
    return lines[0].removeprefix("error: "), lines[1].removeprefix("try: ") if len(lines) > 1 else ""


def bundle_ready(autoadapter: Command, model: Path) -> None:
    """Analyzed, planned and optimized as it is: what needs no engine."""
    for words in (("analyze", model), ("generate", "--scheme", "as_is"), ("optimize",)):
        assert autoadapter(*words, "-w", "ws").code == 0


def test_unknown_strategy(autoadapter: Command, tiny_model: Path) -> None:
    answer = autoadapter("run", tiny_model, "-w", "ws", "--strategy", "fastest")
    assert answer.code == 2
    assert sentences(answer.err) == ("Unknown strategy 'fastest'.", "Known: max_perf, balanced, min_mem")


def test_unknown_hardware(autoadapter: Command, tiny_model: Path) -> None:
    answer = autoadapter("analyze", tiny_model, "-w", "ws", "--hardware", "h20O:8")
    assert answer.code == 2
    error, hint = sentences(answer.err)
    assert error == "Unknown hardware 'h20O:8'. Did you mean h20?"
    assert hint.startswith("Known: cpu, h200")


def test_unknown_scheme(autoadapter: Command, tiny_model: Path) -> None:
    autoadapter("analyze", tiny_model, "-w", "ws")
    answer = autoadapter("generate", "-w", "ws", "--scheme", "int8")
    assert answer.code == 2
    assert sentences(answer.err)[0] == "Unknown scheme 'int8'. Did you mean int8_w8a8?"


def test_a_folder_without_a_config(autoadapter: Command, tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    answer = autoadapter("analyze", folder, "-w", "ws")
    assert answer.code == 2
    assert "config.json" in sentences(answer.err)[0]
    assert not (tmp_path / "ws").exists()


def test_truncated_safetensors(autoadapter: Command, tiny_model: Path) -> None:
    weights = tiny_model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    answer = autoadapter("analyze", tiny_model, "-w", "ws")
    assert answer.code == 2
    error, hint = sentences(answer.err)
    assert error.startswith(str(weights))
    assert "1000" in error or "truncated" in error
    assert hint


def test_an_index_that_names_a_missing_shard(autoadapter: Command, tmp_path: Path) -> None:
    folder = tmp_path / "sharded"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    shapes = llama_shapes()
    first, second = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    write_safetensors(folder / first, dict(list(shapes.items())[:5]))
    weight_map = {name: first if number < 5 else second for number, name in enumerate(shapes)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    answer = autoadapter("analyze", folder, "-w", "ws")
    assert answer.code == 2
    assert second in sentences(answer.err)[0]


def test_an_architecture_that_nothing_serves(autoadapter: Command, tiny_model: Path) -> None:
    config = json.loads((tiny_model / "config.json").read_text())
    config["architectures"] = ["NobodyKnowsForCausalLM"]
    config["model_type"] = "nobody_knows"
    (tiny_model / "config.json").write_text(json.dumps(config))
    answer = autoadapter("run", tiny_model, "-w", "ws")
    assert answer.code == 4
    assert "NobodyKnowsForCausalLM" in answer.err
    assert sentences(answer.err)[0].startswith("tiny-llama will not start")


def test_a_hostile_name_cannot_drive_the_terminal(autoadapter: Command, tiny_model: Path) -> None:
    config = json.loads((tiny_model / "config.json").read_text())
    config["architectures"] = ["Evil\x1b[2J\nerror: all is well[bold]ForCausalLM"]
    (tiny_model / "config.json").write_text(json.dumps(config))
    answer = autoadapter("analyze", tiny_model, "-w", "ws")
    assert answer.code == 4
    assert "\x1b" not in answer.out + answer.err
    assert "[bold]" in answer.out
    assert not any(line.startswith("error: all is well") for line in (answer.out + answer.err).splitlines())


def test_workspace_of_another_version(autoadapter: Command, tiny_model: Path, tmp_path: Path) -> None:
    autoadapter("analyze", tiny_model, "-w", "ws")
    mark = tmp_path / "ws" / "workspace.json"
    mark.write_text(mark.read_text().replace('"schema_version": 1', '"schema_version": 99'))
    answer = autoadapter("generate", "-w", "ws")
    assert answer.code == 2
    assert sentences(answer.err)[0] == f"{mark} has schema version 99, this AutoAdapter reads version 1."


def test_no_workspace_named_without_a_terminal(autoadapter: Command) -> None:
    answer = autoadapter("generate")
    assert answer.code == 2
    error, hint = sentences(answer.err)
    assert error == "No workspace is named; without a terminal -w or AUTOADAPTER_WORKSPACE is required."
    assert hint == "Repeat the command with -w FOLDER"


def test_a_missing_engine_names_the_install_line(autoadapter: Command, tiny_model: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    bundle_ready(autoadapter, tiny_model)
    answer = autoadapter("test", "-w", "ws", "--engine-python", tmp_path / "bare" / "bin" / "python")
    assert answer.code == 5
    error, hint = sentences(answer.err)
    assert error.startswith("vLLM is needed for ")
    assert "pip install 'autoadapter[engine]'" in hint


def test_what_is_no_interpreter(autoadapter: Command, tiny_model: Path) -> None:
    bundle_ready(autoadapter, tiny_model)
    answer = autoadapter("test", "-w", "ws", "--engine-python", "/bin/false")
    assert answer.code == 2
    assert sentences(answer.err)[0].startswith("/bin/false does not run as a Python interpreter")


def test_stages_out_of_order_name_the_missing_one(autoadapter: Command, tiny_model: Path, tmp_path: Path) -> None:
    autoadapter("analyze", tiny_model, "-w", "ws")
    answer = autoadapter("deploy", "-w", "ws")
    assert answer.code == 2
    assert sentences(answer.err)[1] == f"autoadapter generate -w {tmp_path / 'ws'}"


@pytest.mark.parametrize("words", [["analyze"], ["generate", "--nonsense"], ["nonsense"], ["deploy", "--port", "0"]])
def test_usage_errors_exit_with_2(autoadapter: Command, words: list[str]) -> None:
    assert autoadapter(*words).code == 2


def test_an_error_is_a_document_too(autoadapter: Command) -> None:
    answer = autoadapter("generate", "--json")
    document = json.loads(answer.out)
    assert document["error"]["type"] == "WorkspaceError"
    assert document["error"]["exit_code"] == answer.code == 2


def test_a_full_disk_says_so_and_keeps_what_was_finished(
    autoadapter: Command, tiny_model: Path, tmp_path: Path
) -> None:
    """RLIMIT_FSIZE makes the kernel refuse large writes; a sitecustomize turns that into the errno of a full disk."""
    autoadapter("analyze", tiny_model, "-w", "ws")
    before = (tmp_path / "ws" / "profile.json").read_text()
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(
        "import errno, os\ndef full(fd): raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))\nos.fsync = full\n"
    )
    answer = autoadapter("generate", "-w", "ws", env={"PYTHONPATH": str(hook)})
    assert answer.code == 1
    error, hint = sentences(answer.err)
    assert error.startswith("The disk is full: ")
    assert hint == "Free some space and repeat the command: finished stages are kept."
    assert (tmp_path / "ws" / "profile.json").read_text() == before
    assert not list((tmp_path / "ws").rglob("plan.json"))
    assert autoadapter("generate", "-w", "ws").code == 0


def test_a_closed_pipe_is_no_traceback(tiny_model: Path, tmp_path: Path) -> None:
    import subprocess

    command = f"{sys.executable} -m autoadapter analyze {tiny_model} -w {tmp_path}/ws --json | head -c 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in done.stderr
