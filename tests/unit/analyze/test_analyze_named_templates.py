"""Named chat templates in their folder, beside the default one or alone; here and on the Hub."""

from pathlib import Path

import pytest

from autoadapter.analyze import analyze, resolve_model
from autoadapter.analyze.sources.repository import MOST_TEMPLATES, LocalFolder, is_named_template
from autoadapter.artifacts import ModelProfile
from autoadapter.errors import UserError
from tests.unit.analyze.analyze_files import LLAMA_SHAPES, safetensors_bytes, write_model
from tests.unit.analyze.hub_server import HubServer, serving
from tests.unit.analyze.test_analyze_hub import point_at

TOKENIZER = {
    "tokenizer_config.json": "{}",
    "tokenizer.json": '{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}',
}
TOOLS = "additional_chat_templates/tool_use.jinja"


def model(folder: Path, templates: dict[str, str]) -> Path:
    write_model(folder, files={"model.safetensors": safetensors_bytes(LLAMA_SHAPES), **TOKENIZER})
    for name, text in templates.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


def profile(folder: Path) -> ModelProfile:
    return analyze(resolve_model(str(folder)), vllm_version="0.32.0", platform="cuda")


def test_beside_the_default(tmp_path: Path) -> None:
    rag = "additional_chat_templates/rag.jinja"
    traits = profile(
        model(tmp_path / "m", {"chat_template.jinja": "{{ messages }}", TOOLS: "{{ tools }}", rag: ""})
    ).tokenizer
    assert traits is not None and traits.has_chat_template
    assert traits.chat_templates == ("default", "rag", "tool_use")
    assert traits.chat_template_source == "chat_template.jinja"


def test_alone(tmp_path: Path) -> None:
    traits = profile(model(tmp_path / "m", {TOOLS: "{{ messages }}"})).tokenizer
    assert traits is not None and traits.has_chat_template
    assert (traits.chat_templates, traits.chat_template_source) == (("tool_use",), TOOLS)


def test_no_other_folder_is_looked_into(tmp_path: Path) -> None:
    folder = model(tmp_path / "m", {TOOLS: "", "other/a.jinja": "", "additional_chat_templates/a.txt": ""})
    assert [name for name in LocalFolder(folder).files() if "/" in name] == [TOOLS]
    assert not is_named_template("additional_chat_templates/deep/a.jinja")


def test_a_folder_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    folder = model(tmp_path / "m", {})
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "a.jinja").write_text("x")
    (folder / "additional_chat_templates").symlink_to(tmp_path / "secret")
    with pytest.raises(UserError, match="lies outside the model's folder"):
        LocalFolder(folder).files()


def test_not_more_than_anyone_needs(tmp_path: Path) -> None:
    folder = model(tmp_path / "m", {f"additional_chat_templates/{number:03}.jinja": "" for number in range(100)})
    assert sum("/" in name for name in LocalFolder(folder).files()) == MOST_TEMPLATES


def test_on_the_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = model(tmp_path / "m", {"chat_template.jinja": "{{ messages }}", TOOLS: "{{ tools }}"})
    files = {name: (folder / name).read_bytes() for name in LocalFolder(folder).files()}
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with serving(HubServer("someone/model", files)) as hub:
        point_at(monkeypatch, hub.url)
        traits = analyze(resolve_model("someone/model"), vllm_version="0.32.0", platform="cuda").tokenizer
    assert traits is not None
    assert traits.chat_templates == ("default", "tool_use")
