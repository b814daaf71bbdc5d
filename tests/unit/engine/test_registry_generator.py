"""The script that writes the table of architectures, on releases made by hand."""

import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "scripts" / "generate_registry.py"
COMMITTED = ROOT / "autoadapter" / "engine" / "registry" / "architectures.json"
REGISTRY = "vllm/model_executor/models/registry.py"
QUANTIZATION = "vllm/model_executor/layers/quantization/__init__.py"
MODELS = (
    "_TRANSFORMERS_SUPPORTED_MODELS", "_TRANSFORMERS_BACKEND_MODELS", "_SPECULATIVE_DECODING_MODELS",
    "_LATE_INTERACTION_MODELS", "_REWARD_MODELS", "_TOKEN_CLASSIFICATION_MODELS", "_SEQUENCE_CLASSIFICATION_MODELS",
    "_MULTIMODAL_MODELS",
)  # fmt: skip


def registry_source(*names: str, dropped: dict[str, str] | None = None) -> str:
    """A registry module with fifty models and these; importing it would fail."""
    text = {name: ("llama", "LlamaForCausalLM") for name in (*(f"Filler{n}ForCausalLM" for n in range(50)), *names)}
    tables = "\n".join(f"{table}: dict = {{}}" for table in MODELS)
    return f"""
import not_installed_anywhere
_TEXT_GENERATION_MODELS = {text!r}
{tables}
_EMBEDDING_MODELS = {{"BertModel": ("bert", "BertModel"), **{{k: v for k, v in _TEXT_GENERATION_MODELS.items()}}}}
_VLLM_MODELS = {{**_TEXT_GENERATION_MODELS, **_EMBEDDING_MODELS}}
_PREVIOUSLY_SUPPORTED_MODELS = {dropped or {}!r}
_OOT_SUPPORTED_MODELS = {{"BartModel": "https://example.org/bart"}}
"""


def wheel(path: Path, version: str, source: str, methods: tuple[str, ...] = ("awq",)) -> Path:
    """A wheel with the three files that the script reads."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(REGISTRY, source)
        archive.writestr(QUANTIZATION, f"raise SystemExit\nQuantizationMethods = Literal{list(methods)!r}\n")
        archive.writestr(
            f"vllm-{version}.dist-info/METADATA",
            f"Metadata-Version: 2.4\nName: vllm\nVersion: {version}+cpu\nRequires-Dist: torch==2.13.0\n"
            'Requires-Dist: transformers (<6,>=5.5.3)\nRequires-Dist: transformers-extra; extra == "x"\n',
        )
    return path


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True, timeout=60)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "table.json"


def row(table: Path, name: str) -> list[dict[str, str]]:
    return [entry for entry in json.loads(table.read_text())["rows"] if entry["name"] == name]


def test_releases_become_stretches(tmp_path: Path, table: Path) -> None:
    one = wheel(tmp_path / "1.whl", "0.25.0", registry_source("OldForCausalLM", "BackForCausalLM"), ("awq", "bnb"))
    two = wheel(tmp_path / "2.whl", "0.26.0", registry_source("NewForCausalLM", dropped={"OldForCausalLM": "0.25.0"}))
    three = wheel(tmp_path / "3.whl", "0.27.0", registry_source("NewForCausalLM", "BackForCausalLM"))
    done = run("--into", table, three, one, two)
    assert done.returncode == 0, done.stderr
    models = "_TEXT_GENERATION_MODELS"
    assert [entry["vllm"] for entry in json.loads(table.read_text())["versions"]] == ["0.25.0", "0.26.0", "0.27.0"]
    assert row(table, "Filler7ForCausalLM") == [{"table": models, "name": "Filler7ForCausalLM"}]
    assert row(table, "NewForCausalLM") == [{"table": models, "name": "NewForCausalLM", "since": "0.26.0"}]
    assert row(table, "BackForCausalLM") == [
        {"table": models, "name": "BackForCausalLM", "until": "0.26.0"},
        {"table": models, "name": "BackForCausalLM", "since": "0.27.0"},
    ]
    assert row(table, "OldForCausalLM") == [
        {
            "table": "_PREVIOUSLY_SUPPORTED_MODELS",
            "name": "OldForCausalLM",
            "value": "0.25.0",
            "since": "0.26.0",
            "until": "0.27.0",
        },
        {"table": models, "name": "OldForCausalLM", "until": "0.26.0"},
    ]
    assert row(table, "bnb") == [{"table": "QuantizationMethods", "name": "bnb", "until": "0.26.0"}]
    assert row(table, "BertModel") == [{"table": "_EMBEDDING_MODELS", "name": "BertModel"}]


def test_a_release_is_added_without_the_others_at_hand(tmp_path: Path, table: Path) -> None:
    one = wheel(tmp_path / "1.whl", "0.25.0", registry_source("OldForCausalLM"))
    two = wheel(tmp_path / "2.whl", "0.26.0", registry_source("NewForCausalLM"))
    run("--into", table, one, two)
    both = table.read_text()
    table.unlink()
    run("--into", table, two)
    run("--into", table, one)
    assert table.read_text() == both


def test_what_transformers_it_asks_for(tmp_path: Path, table: Path) -> None:
    run("--into", table, wheel(tmp_path / "1.whl", "0.25.0", registry_source()))
    assert json.loads(table.read_text())["versions"] == [{"vllm": "0.25.0", "transformers": "<6,>=5.5.3"}]


def test_source_archive_and_folder(tmp_path: Path, table: Path) -> None:
    folder = tmp_path / "vllm-0.30.0"
    for name, text in {
        REGISTRY: registry_source("NewForCausalLM"),
        QUANTIZATION: 'QuantizationMethods = Literal["awq"]',
        "PKG-INFO": "Name: vllm\nVersion: 0.30.0\n",
        "requirements/common.txt": "numpy\ntransformers >= 5.10.4, < 6 # newer ones break\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    archive = tmp_path / "vllm-0.30.0.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(folder, arcname=folder.name)
    assert run("--into", table, folder).returncode == 0
    from_folder = table.read_text()
    table.unlink()
    assert run("--into", table, archive).returncode == 0
    assert table.read_text() == from_folder
    assert json.loads(from_folder)["versions"] == [{"vllm": "0.30.0", "transformers": ">=5.10.4,<6"}]


def test_the_committed_table_is_what_folding_gives(tmp_path: Path, table: Path) -> None:
    """A release of the table that is added again changes nothing but itself."""
    table.write_bytes(COMMITTED.read_bytes())
    run("--into", table, wheel(tmp_path / "1.whl", "0.99.0", registry_source("NewForCausalLM")))
    before, after = (json.loads(path.read_text()) for path in (COMMITTED, table))
    assert after["versions"][:-1] == before["versions"]
    gone = [entry for entry in after["rows"] if entry.get("until") == "0.99.0"]
    kept = [{key: value for key, value in entry.items() if value != "0.99.0"} for entry in after["rows"]]
    assert gone and all(entry in kept for entry in before["rows"])


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ({}, f"holds no {REGISTRY}"),
        ({REGISTRY: registry_source()}, f"holds no {QUANTIZATION}"),
        ({REGISTRY: registry_source(), QUANTIZATION: "QuantizationMethods = Literal['awq']"}, "states no version"),
        ({REGISTRY: "_MULTIMODAL_MODELS = {}", QUANTIZATION: "", "PKG-INFO": "Version: 1.0\n"}, "has no table"),
    ],
)
def test_what_is_no_vllm(tmp_path: Path, table: Path, content: dict[str, str], word: str) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    for name, text in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    done = run("--into", table, folder)
    assert done.returncode == 2 and word in done.stderr and len(done.stderr.splitlines()) == 1
    assert not table.exists()


def test_a_file_of_another_kind(tmp_path: Path, table: Path) -> None:
    for path in (tmp_path / "absent.whl", SCRIPT):
        done = run("--into", table, path)
        assert done.returncode == 2 and "neither a wheel nor a source archive" in done.stderr
