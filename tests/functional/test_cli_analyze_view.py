"""`analyze` as people and programs see it: one screen, one document, several models, a catalogue of findings."""

import json
import math
from pathlib import Path

import pytest
from model_sketch import layout, sketch_profile, sketch_sizing

from autoadapter.artifacts import Finding, LayoutSizing, Level, Sizing
from autoadapter.artifacts.model_profile import Verdict
from autoadapter.cli.analyze_view import Analysis, Detail, show_analysis
from autoadapter.cli.compare import Compared, show_comparison, worst
from autoadapter.cli.output import Out
from autoadapter.cli.text_bar import cells
from autoadapter.errors import UnsupportedModelError, UserError
from autoadapter.rendering.fit import verdict_words
from tests.functional.conftest import Command, write_tiny_model

Screen = pytest.CaptureFixture[str]
EVIL = "Evil\x1b[2J\u202e[bold red]\n[/]"


def finding(level: Level = Level.WARNING, number: int = 0, text: str = "Something is odd.") -> Finding:
    return Finding(code=f"room.topic-{number}", level=level, message=text, hint="Mend it.", source="config.json")


def shown(capsys: Screen, analysis: Analysis, detail: Detail = Detail()) -> list[str]:  # noqa: B008
    show_analysis(Out(as_json=False), analysis, detail)
    return capsys.readouterr().out.splitlines()


def height(lines: list[str], width: int) -> int:
    """Rows of a terminal, which folds what is longer than it is wide."""
    return sum(max(math.ceil(len(line.rstrip()) / width), 1) for line in lines)


@pytest.mark.parametrize("width", [80, 120])
def test_an_ordinary_model_fits_one_screen(monkeypatch: pytest.MonkeyPatch, capsys: Screen, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    grave = tuple(finding(number=number) for number in range(4))
    notes = tuple(finding(Level.INFO, number) for number in range(10, 30))
    many = (*(layout(2**power, 20 / 2**power, 50) for power in range(9)), *_refused(40))
    lines = shown(capsys, Analysis(sketch_profile(findings=grave + notes), (sketch_sizing(layouts=many),)))
    assert height(lines, width) <= 43  # two more for the files written and the next command
    assert "will start" in lines[0] + lines[1]
    text = "\n".join(lines)
    assert "20 notes: --verbose" in text and "room.topic-10" not in text
    assert "3 more layouts: --all-layouts" in text


def _refused(count: int) -> tuple[LayoutSizing, ...]:
    return tuple(layout(3 + at, 1, 0, reason=f"{16 + at} heads are not divisible by {3 + at}") for at in range(count))


def test_what_was_folded_can_be_seen(monkeypatch: pytest.MonkeyPatch, capsys: Screen) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    many = (*(layout(2**power, 20 / 2**power, 50) for power in range(9)), *_refused(40))
    rows = (*(finding(number=number) for number in range(9)), finding(Level.INFO, 30))
    analysis = Analysis(sketch_profile(findings=rows), (sketch_sizing(layouts=many),))
    short, whole = "\n".join(shown(capsys, analysis)), "\n".join(shown(capsys, analysis, Detail(True, True)))
    assert "topic-8" not in short and "topic-8" in whole and "topic-30" in whole
    assert "TP256" not in short and "TP256" in whole
    assert "55 heads are not divisible by 42" not in short and "55 heads are not divisible by 42" in whole
    assert "config.json:max_position_embeddings" in whole


def test_blockers_are_never_folded(monkeypatch: pytest.MonkeyPatch, capsys: Screen) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    rows = tuple(finding(Level.BLOCKER, number) for number in range(9))
    text = "\n".join(shown(capsys, Analysis(sketch_profile(findings=(*rows, finding(number=20))))))
    assert all(f"room.topic-{number}" in text for number in range(9))
    assert "will not work as it is (9 blockers)" in text


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("will_start", "will start"),
        ("starts_but_wrong", "will start but answer wrongly"),
        ("will_not_start", "will not start"),
        ("unprovable_here", "is unprovable here"),
    ],
)
def test_the_verdict_is_in_plain_words(outcome: str, words: str) -> None:
    verdict: Verdict = sketch_profile(outcome=outcome).verdict
    assert verdict_words(verdict, ())[0] == words


def test_a_table_tells_what_a_layout_holds(monkeypatch: pytest.MonkeyPatch, capsys: Screen) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = shown(capsys, Analysis(sketch_profile(), (sketch_sizing(),)))
    head = next(at for at, line in enumerate(lines) if line.startswith("layout"))
    assert lines[head].split() == ["layout", "weights", "other", "KV", "pool", "KV", "tokens", "at", "once", "longest"]
    assert lines[head + 1].split() == ["TP1", "20.1", "1.60–3.30", "48.0", "2,400,000", "9.6", "262,144"]
    text = "\n".join(lines)
    assert "smallest that serves one such request (least total GPU memory): l40s:1" in lines
    assert "not TP3: 16 heads are not divisible by 3" in text
    assert "KV 47.2–48.7" in text


def test_several_machines_become_a_row_each(monkeypatch: pytest.MonkeyPatch, capsys: Screen) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    none = sketch_sizing("l4", layouts=_refused(1))
    lines = shown(capsys, Analysis(sketch_profile(), (none, sketch_sizing())))
    rows = {line.split()[0]: line for line in lines if line.startswith(("l4", "h100")) and "█" not in line}
    assert "no layout" in rows["l4:2"]
    assert "48.0" in rows["h100:2"]


def test_the_smallest_comes_first_then_what_uses_the_whole_machine(
    monkeypatch: pytest.MonkeyPatch, capsys: Screen
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    staged = layout(1, 10, 60, pipeline=8)
    rows = (
        *(layout(size, 20 / size, 40) for size in (2, 4)),
        staged,
        replicated(1, 8),
        replicated(4, 2),
        layout(8, 3, 70),
        layout(8, 3, 70).model_copy(update={"expert_parallel": True}),
        *(layout(2, 10, 30, pipeline=stages) for stages in (2, 3)),
    )
    lines = shown(capsys, Analysis(sketch_profile(), (sketch_sizing(layouts=rows, count=8),)))
    head = next(at for at, line in enumerate(lines) if line.startswith("layout"))
    names = [line[:10].strip() for line in lines[head + 1 : head + 7]]
    assert names == ["TP2", "TP8", "TP8 EP", "TP1 DP8", "TP4 DP2", "TP4"]
    assert "3 more layouts: --all-layouts" in lines


def replicated(tensor: int, replicas: int) -> LayoutSizing:
    row = layout(tensor, 20 / tensor, 40)
    return row.model_copy(update={"parallelism": row.parallelism.model_copy(update={"data_parallel_size": replicas})})


def test_replicas_count_together(monkeypatch: pytest.MonkeyPatch, capsys: Screen) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    rows = (replicated(1, 4),)
    lines = shown(capsys, Analysis(sketch_profile(), (sketch_sizing(layouts=rows, count=4),)))
    row = next(line for line in lines if line.startswith("TP1 DP4"))
    assert row.split()[-3:] == ["8,000,000", "32.0", "262,144"]
    assert "DP: KV tokens and requests at once are those of all replicas together" in lines
    assert rows[0].kv is not None and rows[0].kv.tokens == 2_000_000


def test_hardware_that_nobody_asked_for_is_no_warning() -> None:
    small = sketch_sizing("l4", layouts=())
    note = Finding(code="sizing.does-not-fit", level=Level.WARNING, message="Too small.", source="a test")
    small = small.model_copy(update={"findings": (note,)})
    assert note in Analysis(sketch_profile(), (small,)).findings
    assert note not in Analysis(sketch_profile(), (small, sketch_sizing())).findings


@pytest.mark.parametrize(("sizes", "width"), [((1, 10**12, 3), 20), ((5, 5), 21), ((0, 7, 0), 20), ((0, 0), 20)])
def test_a_bar_has_its_width_and_hides_nothing(sizes: tuple[int, ...], width: int) -> None:
    lengths = cells(sizes, width)
    assert sum(lengths) == (width if any(sizes) else 0)
    assert all((length > 0) == (size > 0) for size, length in zip(sizes, lengths, strict=True))


def test_a_hostile_model_cannot_drive_the_terminal(monkeypatch: pytest.MonkeyPatch, capsys: Screen) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    profile = sketch_profile("someone/x", architecture=EVIL, findings=(finding(text=EVIL),))
    encoder = profile.structure.encoders[0].model_copy(update={"model_type": EVIL, "why": EVIL})
    profile = profile.model_copy(
        update={"structure": profile.structure.model_copy(update={"encoders": (encoder,)}), "sources": {EVIL: EVIL}}
    )
    sizing = sketch_sizing(layouts=(layout(1, 20, 40), layout(3, 1, 0, reason=EVIL)))
    lines = shown(capsys, Analysis(profile, (sizing,)), Detail(True, True))
    show_comparison(Out(as_json=False), [Compared(EVIL, Analysis(profile, (sizing,)))] * 2)
    text = "\n".join(lines) + capsys.readouterr().out
    assert "\x1b" not in text and "\u202e" not in text
    assert text.count("[bold red]") >= 6


def test_without_a_unicode_terminal_the_bar_is_plain(autoadapter: Command, tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from model_sketch import sketch_profile, sketch_sizing\n"
        "from autoadapter.cli.analyze_view import *\n"
        "sizing = sketch_sizing()\n"
        "from autoadapter.cli.text_bar import draw_bars\n"
        "draw_bars(Out(as_json=False), [('TP1', sizing, sizing.layouts[0])])\n"
    )
    import subprocess
    import sys

    support = Path(__file__).parents[1] / "support"
    env = {"PYTHONIOENCODING": "ascii:replace", "COLUMNS": "80", "PATH": "/usr/bin"}
    done = subprocess.run([sys.executable, "-c", code, support], capture_output=True, text=True, env=env, check=True)
    assert "####" in done.stdout and "?" not in done.stdout.splitlines()[0]


def test_json_holds_the_profile_and_the_sizing(autoadapter: Command, tiny_model: Path) -> None:
    document = json.loads(autoadapter("analyze", tiny_model, "-w", "ws", "--json").out)
    assert document["architecture"] == "LlamaForCausalLM"
    assert "sizing" in document


def test_json_is_one_document_when_the_model_will_not_start(autoadapter: Command, tiny_model: Path) -> None:
    config = json.loads((tiny_model / "config.json").read_text())
    config |= {"architectures": ["NobodyKnowsForCausalLM"], "model_type": "nobody_knows"}
    (tiny_model / "config.json").write_text(json.dumps(config))
    answer = autoadapter("analyze", tiny_model, "-w", "ws", "--json")
    assert answer.code == 4
    assert json.loads(answer.out)["verdict"]["outcome"] == "will_not_start"
    assert "error: tiny-llama will not start" in answer.err


def test_the_document_of_a_sizing_can_be_read_back() -> None:
    document = Analysis(sketch_profile(), (sketch_sizing(),)).document()
    assert Sizing.model_validate_json(json.dumps(document["sizing"])) == sketch_sizing()


def test_models_side_by_side(autoadapter: Command, tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_tiny_model(tmp_path / name)
    answer = autoadapter("analyze", "./one", "./two")
    assert answer.code == 0, answer.err
    assert answer.out.split("\n")[0].split() == ["one", "two"]
    row = next(line for line in answer.out.splitlines() if line.startswith("architecture"))
    assert row.split() == ["architecture", "LlamaForCausalLM", "LlamaForCausalLM"]
    made = sorted(path.parent.name for path in (tmp_path / "autoadapter-workspaces").glob("*/profile.json"))
    assert len(made) == 2
    current = (tmp_path / "autoadapter-workspaces" / ".current").read_text()
    assert Path(current.strip()).name.startswith("one")


def test_many_models_become_rows(autoadapter: Command, tmp_path: Path) -> None:
    for name in ("one", "two", "three", "four"):
        write_tiny_model(tmp_path / name)
    answer = autoadapter("analyze", "./one", "./two", "./three", "./four", env={"COLUMNS": "80"})
    lines = answer.out.splitlines()
    assert lines[0].split()[:2] == ["model", "verdict"]
    assert [line.split()[0] for line in lines[1:5]] == ["one", "two", "three", "four"]


def test_one_that_fails_is_a_column_and_the_exit_code_is_the_worst(autoadapter: Command, tmp_path: Path) -> None:
    write_tiny_model(tmp_path / "good")
    unknown = write_tiny_model(tmp_path / "unknown")
    config = json.loads((unknown / "config.json").read_text())
    config |= {"architectures": ["NobodyKnowsForCausalLM"], "model_type": "nobody_knows"}
    (unknown / "config.json").write_text(json.dumps(config))
    (tmp_path / "empty").mkdir()
    answer = autoadapter("analyze", "./empty", "./good")
    assert answer.code == 2
    assert "error (exit code 2)" in answer.out and "config.json" in answer.out
    answer = autoadapter("analyze", "./empty", "./good", "./unknown", "--json")
    assert answer.code == 4
    first, second, third = json.loads(answer.out)
    assert first["model"] == "./empty" and first["error"]["exit_code"] == 2
    assert second["architecture"] == "LlamaForCausalLM" and "sizing" in second
    assert third["verdict"]["outcome"] == "will_not_start"


@pytest.mark.parametrize(("codes", "code"), [((0, 0), 0), ((0, 2, 4), 4), ((5, 1, 0), 1), ((), 0)])
def test_the_worst_code(codes: tuple[int, ...], code: int) -> None:
    assert worst(codes) == code


def test_a_comparison_tells_errors_in_words(monkeypatch: pytest.MonkeyPatch, capsys: Screen) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    good = Compared("good", Analysis(sketch_profile(), (sketch_sizing(),)))
    bad = Compared("bad", error=UserError("There is no such folder.", hint="Look again."))
    show_comparison(Out(as_json=False), [good, bad])
    text = capsys.readouterr().out
    assert "bad: There is no such folder.  Look again." in text
    assert "on h100:2 TP1" in " ".join(text.split())
    assert Compared("x", error=UnsupportedModelError("no")).exit_code == 4


@pytest.mark.parametrize("named", [{"option": True}, {"env": True}])
def test_a_workspace_holds_one_model(autoadapter: Command, tmp_path: Path, named: dict[str, bool]) -> None:
    words = ("-w", "ws") if "option" in named else ()
    answer = autoadapter("analyze", "a", "b", *words, env={"AUTOADAPTER_WORKSPACE": "ws"} if "env" in named else None)
    assert answer.code == 2
    assert "error: 2 models are named, and a workspace (-w or AUTOADAPTER_WORKSPACE) holds one." in answer.err
    assert not (tmp_path / "ws").exists()


def test_naming_a_model_twice_compares_nothing(autoadapter: Command, tiny_model: Path) -> None:
    answer = autoadapter("analyze", tiny_model, tiny_model, "-w", "ws")
    assert answer.code == 0
    assert "tiny-llama (LlamaForCausalLM)" in answer.out


def test_a_finding_explains_itself(autoadapter: Command) -> None:
    answer = autoadapter("analyze", "--explain", "tokenizer.eos-conflict")
    assert answer.code == 0
    assert answer.out.startswith("tokenizer.eos-conflict: ")
    row = json.loads(autoadapter("analyze", "--explain", "tokenizer.eos-conflict", "--json").out)
    assert row["levels"] == ["warning"]
    assert all(row[name] for name in ("title", "meaning", "remedy"))


def test_an_unknown_code_names_the_nearest(autoadapter: Command) -> None:
    answer = autoadapter("analyze", "--explain", "tokenizer.eos-conflikt")
    assert answer.code == 2
    assert "error: No finding has the code 'tokenizer.eos-conflikt'. Did you mean tokenizer.eos-conflict" in answer.err


def test_findings_on_the_screen_carry_their_code(autoadapter: Command, tiny_model: Path) -> None:
    (tiny_model / "tokenizer.json").unlink()
    (tiny_model / "tokenizer_config.json").unlink()
    answer = autoadapter("analyze", tiny_model, "-w", "ws")
    line = next(line for line in answer.out.splitlines() if line.startswith("blocker"))
    code = line.split()[-1]
    assert autoadapter("analyze", "--explain", code).code == 0


def test_a_page_lies_beside_the_profile(autoadapter: Command, tiny_model: Path, tmp_path: Path) -> None:
    answer = autoadapter("analyze", tiny_model, "-w", "ws")
    assert "Written: ws/analysis.html, and beside it profile.json and sizing.json" in answer.out
    text = (tmp_path / "ws" / "analysis.html").read_text()
    assert "tiny-llama" in text and text.count('class="cell ') == 2
    (tmp_path / "ws" / "analysis.html").unlink()
    autoadapter("analyze", tiny_model, "-w", "ws")
    assert (tmp_path / "ws" / "analysis.html").exists()


@pytest.mark.parametrize(
    ("length", "sentence"),
    [
        (513, "tiny-llama has a context of 512 tokens; --max-model-len 513 is more than that."),
        (0, "--max-model-len must be at least 1, not 0."),
    ],
)
def test_a_context_that_the_model_does_not_have(
    autoadapter: Command, tiny_model: Path, length: int, sentence: str
) -> None:
    answer = autoadapter("analyze", tiny_model, "-w", "ws", "--max-model-len", length)
    assert answer.code == 2
    assert f"error: {sentence}" in answer.err


def test_a_model_is_sized_for_what_was_asked(autoadapter: Command, tiny_model: Path, tmp_path: Path) -> None:
    words = ("--hardware", "h200:2", "--max-model-len", 128, "--gpu-memory-utilization", 0.5)
    document = json.loads(autoadapter("analyze", tiny_model, "-w", "ws", "--json", *words).out)
    sizing = Sizing.model_validate_json(json.dumps(document["sizing"]))
    assert (sizing.hardware.text, sizing.max_model_len, sizing.gpu_memory_utilization) == ("h200:2", 128, 0.5)
    assert document["common_hardware"] == []
    assert sizing == Sizing.read(tmp_path / "ws" / "sizing.json")
    assert (
        sizing.layouts[0].kv_pool is not None and sizing.layouts[0].kv_pool.likely < 0.5 * sizing.hardware.memory_bytes
    )


def test_without_a_gpu_named_the_common_ones_are_sized(autoadapter: Command, tiny_model: Path, tmp_path: Path) -> None:
    document = json.loads(autoadapter("analyze", tiny_model, "-w", "ws", "--json").out)
    assert document["sizing"]["hardware"]["name"] == "cpu"
    names = [sizing["hardware"]["name"] for sizing in document["common_hardware"]]
    assert {"l4", "h100", "h200"} <= set(names)
    page = (tmp_path / "ws" / "analysis.html").read_text()
    assert all(f"{name}:1 TP1" in page for name in names)
