"""`analyze` for hardware that was asked for: the first line, the exit code and the next command tell the same."""

import json
import shlex
from pathlib import Path

import pytest
from model_sketch import layout, sketch_profile, sketch_sizing

from autoadapter.artifacts import DeviceFact, LayoutSizing, ModelProfile, Sizing
from autoadapter.cli.analyze_view import Analysis, Detail, show_analysis
from autoadapter.cli.compare import Compared, show_comparison
from autoadapter.cli.output import Out
from autoadapter.rendering import render
from autoadapter.rendering.model_section import AnalysisView
from tests.functional.conftest import Answer, Command

Screen = pytest.CaptureFixture[str]
LLAMA_8B = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "rope_theta": 500000.0,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}


@pytest.fixture
def big8b(tmp_path: Path) -> Path:
    """A model of 15 GiB by its configuration alone."""
    folder = tmp_path / "big8b"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA_8B))
    return folder


def first_line(capsys: Screen, profile: ModelProfile, sizing: Sizing, *, asked: bool = False) -> str:
    show_analysis(Out(as_json=False), Analysis(profile, (sizing,), asked), Detail())
    return capsys.readouterr().out.splitlines()[0]


def too_long(longest: int) -> LayoutSizing:
    """A layout that holds fewer tokens than were asked for."""
    row = layout(1, 20, 1)
    assert row.kv is not None
    kv = row.kv.model_copy(update={"longest": longest})
    return row.model_copy(update={"fits": False, "reason": "one request needs 9 GiB, 1 is left", "kv": kv})


def test_the_first_line_says_that_it_does_not_fit(monkeypatch: pytest.MonkeyPatch, capsys: Screen) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    none = sketch_sizing("t4", count=1, layouts=(layout(1, 20, 0).model_copy(update={"fits": False, "kv": None}),))
    line = first_line(capsys, sketch_profile("me/big8b", architecture="LlamaForCausalLM"), none)
    assert line.strip() == "me/big8b (LlamaForCausalLM) is served by vLLM 0.32.0, but does not fit t4:1"


@pytest.mark.parametrize(
    ("longest", "asked", "words"),
    [
        (25648, False, "will start on vLLM 0.32.0; on l4:1 with --max-model-len 25648 at most"),
        (2048, False, "will start on vLLM 0.32.0; on l4:1 with --max-model-len 2048 at most"),
        (2047, False, "is served by vLLM 0.32.0, but does not fit l4:1"),
        (25648, True, "is served by vLLM 0.32.0, but does not fit l4:1"),
    ],
)
def test_a_shorter_context_is_no_error_unless_it_was_named(
    monkeypatch: pytest.MonkeyPatch, capsys: Screen, longest: int, asked: bool, words: str
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    sizing = sketch_sizing("l4", count=1, layouts=(too_long(longest),))
    assert first_line(capsys, sketch_profile(), sizing, asked=asked).strip().endswith(words)
    assert (Analysis(sketch_profile(), (sizing,), asked).misfit is None) == ("will start" in words)


def test_what_holds_less_is_still_in_the_table(monkeypatch: pytest.MonkeyPatch, capsys: Screen) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    sizing = sketch_sizing("l4", count=1, layouts=(too_long(25648),))
    show_analysis(Out(as_json=False), Analysis(sketch_profile(), (sizing,)), Detail())
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("TP1 ")]
    assert rows[0][-1] == "25,648"


def test_a_device_that_cannot_run_it_is_told_the_same_way(monkeypatch: pytest.MonkeyPatch, capsys: Screen) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    stop = DeviceFact(topic="device", text="v100 is too old", good=False, stops=True, source="a test")
    sizing = sketch_sizing("v100", count=1, layouts=(too_long(25648),))
    sizing = sizing.model_copy(update={"device_facts": (stop,)})
    assert first_line(capsys, sketch_profile(), sizing).strip().endswith("but does not run on v100:1")
    fit = Analysis(sketch_profile(), (sizing,)).misfit
    assert fit is not None and str(fit.error("x", None)) == "x does not run on v100:1: v100 is too old."


def test_the_page_says_it_too() -> None:
    short = sketch_sizing("l4", count=1, layouts=(too_long(25648),))
    text = render(AnalysisView.of(sketch_profile(), [short]))
    assert "<strong>Will start on vLLM 0.32.0; on l4:1 with --max-model-len 25648 at most</strong>" in text
    none = sketch_sizing("l4", count=1, layouts=(too_long(100),))
    text = render(AnalysisView.of(sketch_profile(), [none]))
    assert "<strong>Is served by vLLM 0.32.0, but does not fit l4:1</strong>" in text
    assert 'class="banner failed"' in text


def test_common_hardware_is_no_reason_to_fail() -> None:
    none = sketch_sizing("cpu", count=1, kind="cpu", layouts=(too_long(100),))
    assert Analysis(sketch_profile(), (none, sketch_sizing())).misfit is None


def hint(answer: Answer) -> list[str]:
    """The command that an error tries."""
    line = next(line for line in answer.err.splitlines() if line.startswith("try: "))
    return shlex.split(line.removeprefix("try: autoadapter "))


def step(answer: Answer) -> list[str]:
    """The command that comes next."""
    line = next(line for line in answer.err.splitlines() if line.startswith("next: "))
    return shlex.split(line.removeprefix("next: autoadapter "))


def test_too_small_hardware_ends_with_the_one_that_serves(autoadapter: Command, big8b: Path) -> None:
    answer = autoadapter("analyze", "./big8b", "--hardware", "t4", "-w", "ws")
    assert answer.code == 4
    assert "does not fit t4:1" in answer.out.splitlines()[0]
    assert "error: big8b does not fit t4:1: weights and overhead" in answer.err and "14.60 × " in answer.err
    assert not [line for line in answer.err.splitlines() if line.startswith("next: ")]
    words = hint(answer)
    assert words[:3] == ["analyze", "./big8b", "--hardware"] and words[-2:] == ["-w", "ws"]
    assert autoadapter(*words).code == 0


def test_too_many_tokens_end_with_how_many_fit(autoadapter: Command, big8b: Path) -> None:
    answer = autoadapter(
        *("analyze", big8b, "--hardware", "l4", "--max-model-len", 100_000, "--gpu-memory-utilization", 0.9, "-w", "ws")
    )
    assert answer.code == 4
    words = hint(answer)
    assert words[2:4] == ["--hardware", "l4"] and "0.9" in words
    again = autoadapter(*words)
    assert again.code == 0
    kept = step(again)
    assert "gpu-memory-utilization=0.9" in kept and "--max-model-len" in kept
    assert autoadapter(*kept).code == 0


def test_json_has_the_document_and_the_error(autoadapter: Command, big8b: Path) -> None:
    answer = autoadapter("analyze", big8b, "--hardware", "t4", "-w", "ws", "--json")
    assert answer.code == 4
    assert json.loads(answer.out)["sizing"]["hardware"]["name"] == "t4"
    assert "error: big8b does not fit t4:1" in answer.err


def test_the_next_command_carries_the_context_that_fits(autoadapter: Command, big8b: Path) -> None:
    answer = autoadapter("analyze", big8b, "--hardware", "l4", "-w", "ws")
    assert answer.code == 0, answer.err
    kept = step(answer)
    length = kept[kept.index("--max-model-len") + 1]
    assert f"on l4:1 with --max-model-len {length} at most" in answer.out.splitlines()[0]
    assert autoadapter(*kept).code == 0


def test_the_next_command_keeps_the_recipes(autoadapter: Command, tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    answer = autoadapter("analyze", tiny_model, "--hardware", "h200", "--recipes", "recipes", "-w", "my ws")
    kept = step(answer)
    assert kept[-2:] == ["-w", "my ws"]
    assert kept[kept.index("--recipes") + 1] == "recipes" and kept[kept.index("--hardware") + 1] == "h200"
    assert autoadapter(*kept).code == 0


def test_a_plan_that_would_fail_is_not_named(autoadapter: Command, big8b: Path, tmp_path: Path) -> None:
    config = LLAMA_8B | {"num_hidden_layers": 800}
    (big8b / "config.json").write_text(json.dumps(config))
    answer = autoadapter("analyze", big8b, "-w", "ws")
    assert answer.code == 0
    for line in answer.err.splitlines():
        if line.startswith("next: "):
            assert autoadapter(*step(answer)).code == 0


def test_a_comparison_ends_alike(autoadapter: Command, big8b: Path, tiny_model: Path) -> None:
    answer = autoadapter("analyze", big8b, tiny_model, "--hardware", "t4")
    assert answer.code == 4
    row = next(line for line in answer.out.splitlines() if line.startswith("verdict"))
    assert "does not fit t4:1" in row and "will start" in row
    assert "big8b does not fit t4:1: weights and overhead" in " ".join(answer.out.split())
    answer = autoadapter("analyze", big8b, tiny_model, "--hardware", "t4", "--json")
    assert answer.code == 4 and len(json.loads(answer.out)) == 2
    assert "error: big8b does not fit t4:1" in answer.err


def test_a_cpu_that_was_named_stands_alone(autoadapter: Command, tiny_model: Path) -> None:
    document = json.loads(autoadapter("analyze", tiny_model, "--hardware", "cpu", "-w", "ws", "--json").out)
    assert document["sizing"]["hardware"]["name"] == "cpu" and document["common_hardware"] == []


def test_a_folder_named_in_two_ways_is_one_model(autoadapter: Command, tiny_model: Path) -> None:
    answer = autoadapter("analyze", "tiny-llama", "./tiny-llama/", tiny_model, "-w", "ws")
    assert answer.code == 0
    assert answer.out.startswith("tiny-llama (LlamaForCausalLM)")


def test_the_first_of_several_stays_the_first(autoadapter: Command, tiny_model: Path, big8b: Path) -> None:
    answer = autoadapter("analyze", "./tiny-llama", big8b, "./tiny-llama/")
    assert answer.out.splitlines()[0].split() == ["tiny-llama", "big8b"]


def test_other_sizes_are_not_called_unchanged(autoadapter: Command, tiny_model: Path) -> None:
    autoadapter("analyze", tiny_model, "-w", "ws", "--hardware", "h200")
    again = autoadapter("analyze", tiny_model, "-w", "ws", "--hardware", "h200:2", "--max-model-len", 128)
    assert "The profile stands: model and engine are unchanged." in again.err
    assert "Nothing changed" not in again.err


def test_what_keeps_no_cache_and_is_not_served_is_not_sized(monkeypatch: pytest.MonkeyPatch, capsys: Screen) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    profile = sketch_profile(outcome="will_not_start", architecture="")
    memory = profile.memory.model_copy(update={"kv_bytes_per_token": 0, "state_bytes_per_request": 0})
    profile = profile.model_copy(update={"memory": memory})
    show_analysis(Out(as_json=False), Analysis(profile, (sketch_sizing(),)), Detail())
    text = capsys.readouterr().out
    assert text.startswith("someone/hybrid-20b will not start on vLLM 0.32.0\n")
    assert "keeps no KV cache" in text and "needs on" not in text and "█" not in text
    page = render(AnalysisView.of(profile, [sketch_sizing()]))
    assert "keeps no KV cache" in page and "Memory on" not in page


def test_a_model_without_layers_is_not_sized() -> None:
    profile = sketch_profile()
    embedding = profile.embedding.model_copy(update={"hidden_size": 0})
    analysis = Analysis(profile.model_copy(update={"embedding": embedding}), (sketch_sizing(layouts=(too_long(1),)),))
    assert "tells no layers" in (analysis.unsized or "")
    assert analysis.misfit is None and not [row for row in analysis.findings if row.code.startswith("plan.")]


LONG = "Somebody__An-Exceptionally-Long-Name-Of-A-Model-70B-Instruct-FP8"


@pytest.mark.parametrize("count", [2, 3, 4, 7])
def test_a_comparison_breaks_no_word(monkeypatch: pytest.MonkeyPatch, capsys: Screen, count: int) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    sizing = sketch_sizing().model_copy(update={"max_model_len": 1_048_576, "smallest": "a100-40g:16"})
    profile = sketch_profile(LONG, architecture="HybridMoeForConditionalGeneration")
    profile = profile.model_copy(update={"max_model_len": 1_048_576})
    show_comparison(Out(as_json=False), [Compared(LONG, Analysis(profile, (sizing, sizing)))] * count)
    lines = capsys.readouterr().out.splitlines()
    words = " ".join(lines).split()
    assert words.count("1,048,576") == count and words.count("a100-40g:16") == count
    assert all(len(line) <= 80 for line in lines)
    if count > 3:
        assert sum(line.startswith("Someb") for line in lines) == count


def test_findings_hang_from_their_level(monkeypatch: pytest.MonkeyPatch, capsys: Screen) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    long = "heads cannot be divided " * 8 + "by three"
    sizing = sketch_sizing(layouts=(layout(1, 20, 40), layout(3, 1, 0, reason=long)))
    Out(as_json=False).findings(sizing.findings)
    show_analysis(Out(as_json=False), Analysis(sketch_profile(), (sizing,)), Detail())
    lines = capsys.readouterr().out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("not TP3: "))
    assert lines[at + 1].startswith(" " * 9 + "heads") or lines[at + 1].startswith(" " * 9)
    assert lines[at + 1][9] != " " and len(lines[at]) <= 60
    assert long in " ".join(" ".join(lines).split())


def test_a_pipe_gets_whole_lines(monkeypatch: pytest.MonkeyPatch, capsys: Screen) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    long = "heads cannot be divided " * 20 + "by three"
    sizing = sketch_sizing(layouts=(layout(1, 20, 40), layout(3, 1, 0, reason=long)))
    show_analysis(Out(as_json=False), Analysis(sketch_profile(), (sizing,)), Detail())
    assert f"not TP3: {long}" in capsys.readouterr().out.splitlines()
