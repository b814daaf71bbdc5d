"""What `render_adapter` writes, and how its tokenizer module behaves on a real (tiny) tokenizer."""

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

import autoadapter
from autoadapter.artifacts import AdapterBundle, Hardware, ModelProfile, Strategy
from autoadapter.artifacts.model_profile import SpecialToken
from autoadapter.errors import StorageError
from autoadapter.generate import render_adapter
from autoadapter.generate.corpus import CORPUS
from autoadapter.plan import PlanRequest, make_plan

GOLDEN = Path(__file__).parents[2] / "golden" / "dense_on_cpu" / "profile.json"
CPU = Hardware(name="cpu", kind="cpu", count=1, memory_bytes=16 * 1024**3, source="a test")
SPECIAL = {"bos": "<s>", "eos": "</s>", "pad": "<pad>"}
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}[{{ message.role }}]"
    "{% generation %}{{ message.content }}{% endgeneration %}{{ eos_token }}\n{% endfor %}"
    "{% if tools %}{{ tools | tojson }}{% endif %}{% if add_generation_prompt %}[assistant]{% endif %}"
)


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level tokenizer trained on a few lines, which adds a begin token and has padding switched on."""
    folder = tmp_path_factory.mktemp("model")
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=list(SPECIAL.values()), initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(CORPUS.values(), trainer)
    made.add_special_tokens([AddedToken(text, normalized=False) for text in SPECIAL.values()])
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", made.token_to_id("<s>"))]
    )
    made.enable_padding(length=64)
    made.enable_truncation(8)
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    return folder


@pytest.fixture(scope="module")
def profile(model_folder: Path) -> ModelProfile:
    made = Tokenizer.from_file(str(model_folder / "tokenizer.json"))
    base = ModelProfile.read(GOLDEN)
    tokens = tuple(SpecialToken(role=role, text=text, id=made.token_to_id(text)) for role, text in SPECIAL.items())
    traits = base.tokenizer.model_copy(
        update={"special_tokens": tokens, "stop_token_ids": (made.token_to_id("</s>"),), "has_chat_template": True}
    )
    return base.model_copy(update={"tokenizer": traits})


def render_to(profile: ModelProfile, folder: Path) -> AdapterBundle:
    plan = make_plan(profile, PlanRequest(strategy=Strategy.BALANCED, hardware=CPU, vllm_version="0.32.0"))
    return render_adapter(profile, plan, folder)


@pytest.fixture(scope="module")
def adapter(profile: ModelProfile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rendered") / "adapter"
    render_to(profile, folder)
    return folder


@pytest.fixture(scope="module")
def module(adapter: Path) -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("rendered_tokenizer", adapter / "tokenizer" / "tokenizer_adapter.py")
    assert spec
    assert spec.loader
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    yield loaded


def test_the_manifest_is_what_lies_there(profile: ModelProfile, tmp_path: Path) -> None:
    bundle = render_to(profile, tmp_path / "adapter")
    assert bundle == AdapterBundle.read(tmp_path / "adapter" / "adapter.json")
    assert bundle.tool_version == autoadapter.__version__
    for file in bundle.files:
        assert hashlib.sha256((tmp_path / "adapter" / file.path).read_bytes()).hexdigest() == file.sha256
    assert [path.name for path in tmp_path.iterdir()] == ["adapter"]


def test_rendering_again_replaces_the_folder(profile: ModelProfile, tmp_path: Path) -> None:
    render_to(profile, tmp_path / "adapter")
    (tmp_path / "adapter" / "old.txt").write_text("of a former version")
    render_to(profile, tmp_path / "adapter")
    assert not (tmp_path / "adapter" / "old.txt").exists()


def test_a_failure_leaves_the_old_adapter(
    profile: ModelProfile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    render_to(profile, tmp_path / "adapter")
    before = {path: path.read_bytes() for path in (tmp_path / "adapter").rglob("*") if path.is_file()}

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match=r"^The disk is full"):
        render_to(profile, tmp_path / "adapter")
    assert {path: path.read_bytes() for path in (tmp_path / "adapter").rglob("*") if path.is_file()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["adapter"]


def test_findings_speak_of_missing_tokenizer_and_stop_tokens(profile: ModelProfile, tmp_path: Path) -> None:
    traits = profile.tokenizer.model_copy(update={"files": (), "kind": "sentencepiece", "stop_token_ids": ()})
    bundle = render_to(profile.model_copy(update={"tokenizer": traits}), tmp_path / "adapter")
    assert [finding.code for finding in bundle.findings] == ["generate.no-fast-tokenizer", "generate.no-stop-token"]


def test_the_module_encodes_without_the_files_padding(module: ModuleType, model_folder: Path) -> None:
    made = module.TokenizerAdapter.from_folder(model_folder)
    begin, end = module.SPECIAL_TOKENS["<s>"], module.SPECIAL_TOKENS["</s>"]
    ids = made.encode(CORPUS["code"])
    assert ids[0] == begin
    assert ids.count(begin) == 1
    assert len(ids) > 8
    assert made.decode(ids) == CORPUS["code"]
    assert made.encode("</s>", add_special_tokens=False) == [end]
    assert list(module.STOP_TOKEN_IDS) == [end]


def test_the_module_pads_and_truncates_on_the_asked_side(module: ModuleType, model_folder: Path) -> None:
    made = module.TokenizerAdapter.from_folder(model_folder)
    pad = module.SPECIAL_TOKENS["<pad>"]
    left = made.encode_batch(["a", "a b c d"], padding_side="left")
    right = made.encode_batch(["a", "a b c d"], padding_side="right")
    assert left.ids[0][0] == right.ids[0][-1] == pad
    assert left.attention_mask[0] == right.attention_mask[0][::-1]
    assert right.ids[1] == left.ids[1] == made.encode("a b c d")
    (cut,) = made.encode_batch(["a b c d e f"], max_length=3, truncation_side="left").ids
    assert cut == [module.SPECIAL_TOKENS["<s>"], *made.encode("a b c d e f")[-2:]]
    with pytest.raises(ValueError, match="leaves no room"):
        made.encode_batch(["a"], max_length=1)
    assert made.encode_batch([]).ids == []


def test_the_module_renders_chats_as_transformers_does(module: ModuleType, model_folder: Path) -> None:
    made = module.TokenizerAdapter.from_folder(model_folder)
    chat = [{"role": "user", "content": "<b> & 'é'"}]
    assert made.render_chat(chat) == "<s>[user]<b> & 'é'</s>\n[assistant]"
    assert made.render_chat(chat, add_generation_prompt=False, tools=[{"name": "é<"}]).endswith('[{"name": "é<"}]')


def test_the_sandbox_holds(module: ModuleType) -> None:
    escape = module.compile_template("{{ ''.__class__.__mro__[1].__subclasses__() }}")
    with pytest.raises(module.jinja2.exceptions.SecurityError):
        escape.render()
    with pytest.raises(module.jinja2.TemplateError, match="no system role"):
        module.compile_template("{{ raise_exception('no system role') }}").render()


def test_named_templates_and_none(module: ModuleType, tmp_path: Path) -> None:
    assert module.read_chat_template(tmp_path) is None
    several = [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": several}))
    assert module.read_chat_template(tmp_path) == "D"
    (tmp_path / "chat_template.jinja").write_text("F")
    assert module.read_chat_template(tmp_path) == "F"
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json is missing"):
        module.TokenizerAdapter.from_folder(tmp_path)


def run_generated(adapter: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider", "tests"]
    given = {key: value for key, value in os.environ.items() if not key.startswith("AUTOADAPTER_")} | env
    return subprocess.run(command, capture_output=True, text=True, cwd=adapter, env=given, timeout=120)


def test_the_generated_tests_pass_on_a_sound_model(adapter: Path, model_folder: Path) -> None:
    done = run_generated(adapter, {"AUTOADAPTER_MODEL": str(model_folder)})
    assert done.returncode == 0, done.stdout
    assert "8 passed, 8 skipped" in done.stdout
    assert "AUTOADAPTER_BASE_URL is not set" in done.stdout


def test_the_generated_tests_say_which_variable_is_missing(adapter: Path) -> None:
    done = run_generated(adapter, {})
    assert "16 skipped" in done.stdout
    assert "AUTOADAPTER_MODEL is not set" in done.stdout


@pytest.mark.parametrize(
    ("fault", "caught_by"),
    [
        ("stop", "test_a_chat_holds_its_messages_and_ends_its_turns"),
        ("id", "test_special_tokens_are_single_ids"),
        ("double-bos", "test_the_text_begins_with_bos_at_most_once"),
    ],
)
def test_the_generated_tests_catch_a_broken_model(
    fault: str, caught_by: str, adapter: Path, model_folder: Path, tmp_path: Path
) -> None:
    document = json.loads((model_folder / "tokenizer.json").read_text())
    template = TEMPLATE
    if fault == "stop":
        template = TEMPLATE.replace("{{ eos_token }}", "")
    if fault == "id":
        for token in document["added_tokens"]:
            token["id"] = {0: 1, 1: 0}.get(token["id"], token["id"])
        vocab = document["model"]["vocab"]
        vocab["<s>"], vocab["</s>"] = vocab["</s>"], vocab["<s>"]
    if fault == "double-bos":
        begin = {"SpecialToken": {"id": "<s>", "type_id": 0}}
        document["post_processor"]["single"].insert(0, begin)
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    done = run_generated(adapter, {"AUTOADAPTER_MODEL": str(tmp_path)})
    assert done.returncode == 1, done.stdout
    assert f"::{caught_by}" in done.stdout
