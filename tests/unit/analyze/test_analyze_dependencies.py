"""Which releases of transformers and vLLM know a model, and what stands in the way."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
from pydantic import JsonValue

from autoadapter.analyze import analyze, resolve_model
from autoadapter.analyze.dependencies import table
from autoadapter.analyze.dependencies.table import known_type, newest_transformers, vllm_reads
from autoadapter.analyze.versions import older, release
from autoadapter.artifacts import Finding, Level, ModelProfile
from autoadapter.engine import EngineTarget
from tests.unit.analyze.analyze_files import write_model

SCRIPT = Path(__file__).parents[3] / "scripts" / "generate_transformers_versions.py"


def profile(folder: Path, config: dict[str, JsonValue], transformers: str | None = None) -> ModelProfile:
    target: str | EngineTarget = "0.32.0"
    if transformers:
        target = EngineTarget(Path("/nowhere/python"), "0.32.0", "vllm", {"transformers": transformers})
    return analyze(resolve_model(str(write_model(folder, config))), vllm_version=target, platform="cpu")


def codes(found: ModelProfile) -> dict[str, Finding]:
    return {finding.code: finding for finding in found.findings}


FIRST = {
    "llama": "4.40.0",  # or before: the oldest release of the table
    "gemma2": "4.42.0",
    "qwen3": "4.51.0",
    "gpt_oss": "4.55.0",
    "qwen3_next": "4.57.1",
    "minimax_m2": "5.0.0",
}
"""As transformers' release notes tell."""


@pytest.mark.parametrize(("model_type", "version"), FIRST.items())
def test_first_release_that_knows_a_type(model_type: str, version: str) -> None:
    known = known_type(model_type)
    assert known is not None
    assert (known.first, known.last) == (version, None)


def test_types_that_were_dropped_or_never_there() -> None:
    dropped = known_type("open-llama")
    assert dropped is not None
    assert (dropped.first, dropped.last) == ("4.40.0", "4.57.1")
    assert known_type("nemotron-nas") is None
    assert vllm_reads("kimi_k2")
    assert not vllm_reads("llama")


def test_the_table_is_whole() -> None:
    document = json.loads(table.DATA.read_bytes())
    versions = document["versions"]
    assert versions == sorted(versions, key=lambda text: [int(part) for part in text.split(".")])
    minors = [tuple(map(int, text.split(".")[:2])) for text in versions]
    old, new = [minor for major, minor in minors if major == 4], [minor for major, minor in minors if major == 5]
    assert (old, new) == (list(range(40, 58)), list(range(max(new) + 1)))
    assert newest_transformers() == versions[-1]


def test_facts_of_a_known_model(tmp_path: Path) -> None:
    found = profile(
        tmp_path / "m", {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "transformers_version": "4.51.0"}
    )
    facts = found.dependencies
    assert (facts.transformers, facts.min_transformers, facts.config_by) == ("4.51.0", "4.51.0", "transformers")
    assert facts.min_vllm is None
    assert facts.installed_transformers is None
    assert found.sources["dependencies.transformers"] == "config.json:transformers_version"
    assert not [code for code in codes(found) if code.startswith("dependencies.")]


def test_the_oldest_known_release_is_no_requirement(tmp_path: Path) -> None:
    facts = profile(tmp_path / "m", {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}).dependencies
    assert (facts.min_transformers, facts.min_vllm) == (None, None)


def test_a_release_after_the_oldest_is_one(tmp_path: Path) -> None:
    found = profile(tmp_path / "m", {"architectures": ["Dots3NoteForCausalLM"]})
    assert found.dependencies.min_vllm == "0.28.0"
    for version in ("0.10.0", "0.25.0"):
        old = analyze(resolve_model(str(tmp_path / "m")), vllm_version=version, platform="cuda").verdict
        assert old.outcome == "will_not_start"
        assert f"vLLM {version} is too old for Dots3NoteForCausalLM: it needs vLLM 0.28.0 or newer" in old.reason
        assert (old.hint or "").endswith("--vllm-version 0.28.0")


@pytest.mark.parametrize(("model_type", "needs"), [("llama", "5.0.0"), ("qwen3", "5.0.0"), ("minimax_m2", "5.0.0")])
def test_a_tokenizer_of_transformers_5_needs_it(tmp_path: Path, model_type: str, needs: str) -> None:
    folder = write_model(tmp_path / "m", {"model_type": model_type})
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "TokenizersBackend"}')
    found = analyze(resolve_model(str(folder)), vllm_version="0.32.0", platform="cpu")
    assert found.dependencies.min_transformers == needs


def test_a_tokenizer_never_makes_the_model_type_too_new(tmp_path: Path) -> None:
    """Beside transformers 4 it is the tokenizer that fails, of which the tokenizer's own checks tell."""
    folder = write_model(tmp_path / "m", {"model_type": "qwen3"})
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "TokenizersBackend"}')
    target = EngineTarget(Path("/nowhere/python"), "0.32.0", "vllm", {"transformers": "4.57.1"})
    told = codes(analyze(resolve_model(str(folder)), vllm_version=target, platform="cpu"))
    assert "dependencies.transformers-old" not in told


def test_a_type_that_nobody_knows(tmp_path: Path) -> None:
    found = profile(tmp_path / "m", {"model_type": "frobnicate"})
    assert found.dependencies.config_by == "nobody"
    told = codes(found)["dependencies.model-type-unknown"]
    assert newest_transformers() in told.message
    assert told.level is Level.WARNING


def site(tmp_path: Path, *types: str, transformers: str = "5.1.0") -> EngineTarget:
    """An engine whose transformers names these model types."""
    auto = tmp_path / "site" / "transformers" / "models" / "auto"
    auto.mkdir(parents=True)
    (auto / "configuration_auto.py").write_text(repr(dict.fromkeys(types, "Config")).replace("'", '"'))
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nprintf '%s\\n' '{tmp_path / 'site'}'\n")
    python.chmod(0o755)
    return EngineTarget(python, "0.32.0", "vllm", {"transformers": transformers})


def test_the_installed_transformers_has_the_last_word(tmp_path: Path) -> None:
    engine = site(tmp_path, "frobnicate")
    for name, told in (("frobnicate", False), ("other", True)):
        folder = write_model(tmp_path / name, {"model_type": name})
        found = codes(analyze(resolve_model(str(folder)), vllm_version=engine, platform="cpu"))
        assert ("dependencies.model-type-unknown" in found) is told
        assert not told or found["dependencies.model-type-unknown"].level is Level.BLOCKER


def test_remote_code_or_vllm_may_read_the_config(tmp_path: Path) -> None:
    remote: dict[str, JsonValue] = {"model_type": "nemotron-nas", "auto_map": {"AutoConfig": "configuration_decilm.C"}}
    assert profile(tmp_path / "a", remote).dependencies.config_by == "remote-code"
    found = profile(tmp_path / "b", {"model_type": "kimi_k2"})
    assert found.dependencies.config_by == "vllm"
    assert "dependencies.model-type-unknown" not in codes(found)


@pytest.mark.parametrize(("transformers", "told"), [("4.50.3", True), ("4.51.0", False), ("5.0.0.dev0", False)])
def test_transformers_older_than_the_model(tmp_path: Path, transformers: str, told: bool) -> None:
    found = codes(profile(tmp_path / "m", {"model_type": "qwen3"}, transformers))
    assert ("dependencies.transformers-old" in found) is told
    assert not told or "since 4.51.0" in found["dependencies.transformers-old"].message


def test_a_type_that_transformers_dropped(tmp_path: Path) -> None:
    config: dict[str, JsonValue] = {"model_type": "open-llama"}
    assert codes(profile(tmp_path / "a", config, "5.1.0"))["dependencies.transformers-dropped"].level is Level.BLOCKER
    assert codes(profile(tmp_path / "b", config))["dependencies.transformers-dropped"].level is Level.WARNING
    assert "dependencies.transformers-dropped" not in codes(profile(tmp_path / "c", config, "4.57.1"))


WRITTEN = {
    "older": ("4.51.0", "5.1.0", None),
    "a patch newer": ("5.1.3", "5.1.0", None),
    "a minor newer": ("5.2.0", "5.1.0", Level.INFO),
    "a major newer": ("5.2.0", "4.57.1", Level.WARNING),
    "no version": ("main", "5.1.0", None),
    "none installed": ("5.2.0", None, None),
}


@pytest.mark.parametrize(("wrote", "has", "level"), WRITTEN.values(), ids=WRITTEN)
def test_a_config_newer_than_the_engine(tmp_path: Path, wrote: str, has: str | None, level: Level | None) -> None:
    found = codes(profile(tmp_path / "m", {"transformers_version": wrote}, has)).get("dependencies.written-newer")
    assert (found.level if found else None) is level


def test_remote_code_of_transformers_4_under_5(tmp_path: Path) -> None:
    """The class of B120, whose own model the registry's known issues name."""
    config: dict[str, JsonValue] = {
        "model_type": "frob-nas",
        "transformers_version": "4.44.2",
        "auto_map": {"AutoConfig": "configuration_decilm.DeciLMConfig"},
    }
    found = codes(profile(tmp_path / "a", config, "5.1.0"))["remote-code.old-transformers"]
    assert "4.44.2" in found.message
    assert "5.1.0" in found.message
    assert "below 5" in (found.hint or "")
    assert (
        "or newer, which vLLM asks for"
        in codes(profile(tmp_path / "b", config))["remote-code.old-transformers"].message
    )
    named = codes(profile(tmp_path / "e", config | {"model_type": "nemotron-nas"}))
    assert "remote-code.old-transformers" not in named
    assert "issue.remote-code-of-transformers-4" in named
    assert "remote-code.old-transformers" not in codes(profile(tmp_path / "c", config, "4.57.1"))
    assert "remote-code.old-transformers" not in codes(
        profile(tmp_path / "d", config | {"model_type": "llama"}, "5.1.0")
    )


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("5.0.0rc2", (5,)), ("4.57.1", (4, 57, 1)), ("v5.1", (5, 1)), ("0.32.0+cpu", (0, 32)), ("main", None), ("", None)],
)
def test_release_numbers(text: str, numbers: tuple[int, ...] | None) -> None:
    assert release(text) == numbers


def test_what_is_no_number_is_never_older() -> None:
    assert not older("main", "5")
    assert not older("5", "main")
    assert older("4.57.1", "5")
    assert not older("5.0.0.dev0", "5")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_transformers_versions", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_script_reads_every_way_in_which_the_table_was_written(script: ModuleType) -> None:
    source = (
        'CONFIG_MAPPING_NAMES = OrderedDict([("a", "AConfig"), ("b", "BConfig")])\n'
        'CONFIG_MAPPING_NAMES.update({"c": "CConfig"})\n'
        'CONFIG_MAPPING_NAMES = OrderedDict(**{"d-e": "DConfig"}, **CONFIG_MAPPING_NAMES)\n'
        'CONFIG_MAPPING_NAMES: dict[str, str] = {"f": "FConfig"}\n'
        'OTHER = OrderedDict([("z", "ZConfig")])\n'
    )
    assert list(script._keys(source)) == ["a", "b", "c", "d-e", "f"]


def test_the_script_keeps_ranges(script: ModuleType) -> None:
    known = {"4.40.0": {"a", "b"}, "4.41.0": {"a", "b", "c"}, "5.0.0": {"a", "c", "d"}}
    assert script._ranges(known) == {
        "versions": ["4.40.0", "4.41.0", "5.0.0"],
        "first": {"4.40.0": ["a", "b"], "4.41.0": ["c"], "5.0.0": ["d"]},
        "last": {"4.41.0": ["b"]},
    }
