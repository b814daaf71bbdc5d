"""Bad input: one clear sentence, the next command, the right exit code, nothing lost."""

import json
import shlex
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
    assert hint.startswith("autoadapter analyze … --hardware h20:8   (known: cpu, h200")
    hint = sentences(autoadapter("run", tiny_model, "-w", "ws", "--hardware", "mainframe").err)[1]
    assert hint.startswith("Known: cpu, h200")


def test_a_hint_keeps_the_strategy_and_the_workspace(autoadapter: Command, tiny_model: Path) -> None:
    """Repeated as it is printed, the command plans."""
    config = json.loads((tiny_model / "config.json").read_text()) | {"max_position_embeddings": 1 << 20}
    (tiny_model / "config.json").write_text(json.dumps(config))
    wish = ("--strategy", "min_mem", "--max-model-len", 1 << 20, "--engine-arg", "gpu-memory-utilization=0.08")
    answer = autoadapter("run", tiny_model, "-w", "my ws", "--hardware", "t4", *wish)
    assert answer.code == 4
    error, hint = sentences(answer.err)
    words = shlex.split(hint)
    assert words[:4] == ["autoadapter", "generate", "-w", "my ws"]
    assert words[words.index("--strategy") + 1] == "min_mem"
    assert error.endswith(f"{words[words.index('--hardware') + 1]} holds it.")
    assert autoadapter(*words[1:]).code == 0


def test_a_gpu_that_cannot_run_the_model(autoadapter: Command, tiny_model: Path) -> None:
    autoadapter("analyze", tiny_model, "-w", "ws", "--hardware", "h200")
    answer = autoadapter("generate", "-w", "ws", "--hardware", "v100")
    assert answer.code == 4
    error, hint = sentences(answer.err)
    assert "cannot run on v100:1" in error
    assert autoadapter(*shlex.split(hint)[1:]).code == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("analyze", "m", "--max-model-len", "32k"), "Invalid value 32k for --max-model-len: Input should be a valid"),
        (("analyze", "m", "--gpu-memory-utilization=92"), "Invalid value 92 for --gpu-memory-utilization: Input"),
        (("generate", "--nothing"), "No such option: --nothing"),
        (("nothing",), "No such command 'nothing'."),
    ],
)
def test_usage_errors_speak_as_all_errors_do(autoadapter: Command, words: tuple[str, ...], sentence: str) -> None:
    for flags in ((), ("--json",)):
        answer = autoadapter(*words, *flags)
        command = words[0] if words[0] != "nothing" else ""
        assert answer.code == 2
        error, hint = sentences(answer.err)
        assert error.startswith(sentence)
        assert error.endswith(".")
        assert hint == " ".join(filter(None, ("autoadapter", command, "--help")))
        assert len(answer.err.splitlines()) == 2
        assert not flags or json.loads(answer.out)["error"] == {
            "type": "UserError",
            "message": error,
            "hint": hint,
            "exit_code": 2,
        }


def test_no_words_at_all_are_answered_with_help(autoadapter: Command) -> None:
    answer = autoadapter()
    assert answer.code == 2
    assert "analyze → generate → optimize → test → deploy" in answer.out + answer.err


@pytest.mark.parametrize(("name", "lack"), [("/nope", "does not exist"), ("tiny-llama/config.json", "is a file")])
def test_recipes_that_are_no_folder(autoadapter: Command, tiny_model: Path, name: str, lack: str) -> None:
    folder = tiny_model.parent / name
    for words in (("analyze", tiny_model, "-w", "ws"), ("analyze", tiny_model, "-w", "ws"), ("generate", "-w", "ws")):
        answer = autoadapter(*words, "--recipes", folder)
        assert answer.code == 2
        assert sentences(answer.err)[0] == f"--recipes {folder} {lack}; a folder of recipes is needed."
        autoadapter("analyze", tiny_model, "-w", "ws")
    assert autoadapter("analyze", tiny_model, "-w", "ws", "--recipes", tiny_model.parent).code == 0


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


def test_a_model_that_embeds_is_not_said_to_fail(autoadapter: Command, tiny_model: Path) -> None:
    config = json.loads((tiny_model / "config.json").read_text()) | {"architectures": ["BertModel"]}
    (tiny_model / "config.json").write_text(json.dumps(config))
    for command in ("analyze", "run"):
        answer = autoadapter(command, tiny_model, "-w", "ws")
        error, hint = sentences(answer.err)
        assert answer.code == 4
        assert error.startswith("tiny-llama does not generate text: AutoAdapter serves models that generate text; ")
        assert "serves it as a pooling model" in error
        assert "not start" not in answer.out + answer.err
        assert hint == f"vllm serve {tiny_model} --runner pooling"


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
