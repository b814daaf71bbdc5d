"""What a release of vLLM serves, and how that changes between releases."""

import pytest

from autoadapter.engine.registry import first_serving, known_versions, registry_for
from autoadapter.engine.versions import release, within
from autoadapter.errors import UserError


def served(name: str) -> dict[str, bool]:
    return {version: name in registry_for(version).registry.served for version in known_versions()}


def test_known_releases_ascend_from_0_25_to_0_33() -> None:
    known = known_versions()
    assert (known[0], known[-1]) == ("0.25.0", "0.33.0")
    assert list(known) == sorted(known, key=release)


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("LlamaForCausalLM", "0.25.0", "0.33.0"),
        ("TeleChatForCausalLM", "0.25.0", "0.25.1"),
        ("OuroForCausalLM", "0.25.0", "0.26.0"),
        ("MptForCausalLM", "0.25.0", "0.28.0"),
        ("KimiK3ForConditionalGeneration", "0.27.0", "0.33.0"),
        ("HYV4ForCausalLM", "0.29.0", "0.33.0"),
        ("Step5ForCausalLM", "0.33.0", "0.33.0"),
    ],
)
def test_additions_and_drops(name: str, first: str, last: str) -> None:
    held = [version for version, there in served(name).items() if there]
    assert (held[0], held[-1]) == (first, last)
    assert held == [version for version in known_versions() if release(first) <= release(version) <= release(last)]


def test_a_name_that_went_and_came_back() -> None:
    held = served("ExaoneMoEForCausalLM")
    assert held["0.26.0"] and not held["0.27.0"] and not held["0.31.0"] and held["0.32.0"]
    assert registry_for("0.28.0").registry.spelt_otherwise("ExaoneMoEForCausalLM") == "ExaoneMoeForCausalLM"


def test_from_a_class_of_its_own_to_the_backend() -> None:
    older, newer = registry_for("0.31.0").registry, registry_for("0.32.0").registry
    assert "GPTNeoXForCausalLM" in older.text_generation and "GPTNeoXForCausalLM" not in older.transformers_backend
    assert "GPTNeoXForCausalLM" in newer.transformers_backend and "GPTNeoXForCausalLM" not in newer.text_generation
    assert newer.served_until("GPTNeoXForCausalLM", "0.32.0") is None


def test_last_version_of_a_dropped_architecture() -> None:
    registry = registry_for("0.32.0").registry
    assert registry.served_until("StableLMEpochForCausalLM", "0.32.0") == "0.28.0"
    assert registry.served_until("HCXVisionForCausalLM", "0.28.0") is None
    assert registry.served_until("NobodyKnowsForCausalLM", "0.32.0") is None


def test_dropped_without_a_word() -> None:
    gone = registry_for("0.28.0").registry
    assert "ExaoneMoEForCausalLM" not in gone.dropped
    assert gone.served_until("ExaoneMoEForCausalLM", "0.28.0") == "0.26.0"


def test_first_release_that_serves() -> None:
    row = first_serving("Step5ForCausalLM", "0.32.0")
    assert row is not None and (row.table, row.since) == ("_TEXT_GENERATION_MODELS", "0.33.0")
    assert first_serving("Step5ForCausalLM", "0.33.0") is None
    assert first_serving("LlamaForCausalLM", "0.25.0") is None


def test_the_line_that_proves_it() -> None:
    registry = registry_for("0.32.0").registry
    file = "vLLM 0.32.0 model_executor/models/registry.py"
    assert registry.line("LlamaForCausalLM") == f'{file}: _TEXT_GENERATION_MODELS["LlamaForCausalLM"]'
    assert registry.line("BambaForCausalLM") == f'{file}: _PREVIOUSLY_SUPPORTED_MODELS["BambaForCausalLM"]'
    assert registry.line("BartForConditionalGeneration").endswith(
        '_OOT_SUPPORTED_MODELS["BartForConditionalGeneration"]'
    )
    assert registry.line("Nobody") == f'{file}: no "Nobody" in _VLLM_MODELS'


def test_transformers_that_a_release_asks_for() -> None:
    assert registry_for("0.27.1").registry.transformers == ">=5.5.3"
    assert registry_for("0.32.0").registry.transformers == "<5.20.0,>=5.16.1"


def test_quantization_methods_change_too() -> None:
    older, newer = registry_for("0.27.1").registry, registry_for("0.28.0").registry
    assert "bitsandbytes" in older.quantizations and "bitsandbytes" not in newer.quantizations
    assert newer.quantization_until("bitsandbytes") == "0.27.1" and newer.quantization_until("awq") is None
    assert newer.deprecated_quantizations == {"fbgemm_fp8", "fp_quant"}


@pytest.mark.parametrize(
    ("asked", "chosen", "word"),
    [
        ("0.32.0", "0.32.0", None),
        ("v0.32.0+cpu", "0.32.0", None),
        ("0.31.0rc2", "0.31.0", None),
        ("0.31.4", "0.31.0", "nearest older"),
        ("1.0", "0.33.0", "nearest older"),
        ("0.20.2", "0.25.0", "newer, because none that old"),
    ],
)
def test_nearest_release_stands_in(asked: str, chosen: str, word: str | None) -> None:
    match = registry_for(asked)
    assert match.registry.vllm_version == chosen
    assert match.note is None if word is None else word in (match.note or "")


@pytest.mark.parametrize("text", ["latest", "", "main"])
def test_no_version(text: str) -> None:
    with pytest.raises(UserError, match="is not a version of vLLM"):
        registry_for(text)


def test_stretches_of_releases() -> None:
    assert within("0.28.0", "0.28.0", None) and not within("0.28.0", None, "0.28.0")
    assert within("0.27.1", "0.27", "0.28") and within("5.0.0.dev0", "5", None)


def test_names_and_versions_without_end() -> None:
    registry = registry_for("0.32.0").registry
    assert registry.related("ForA" * 100_000 + "1") is None
    assert release("9" * 5000)[1:] == (0, 0)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("MiniMaxM3ForCausalLM", "MiniMaxM3SparseForCausalLM"),
        ("Step3p7FlashForCausalLM", "Step3p7ForConditionalGeneration"),
        ("LlamaForCausalLM2", None),
        ("Zamba3ForCausalLM", None),
        ("KimiForCausalLM", None),
    ],
)
def test_names_that_differ_by_a_word(name: str, other: str | None) -> None:
    assert registry_for("0.32.0").registry.related(name) == other
