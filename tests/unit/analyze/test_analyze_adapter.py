"""A folder with a LoRA adapter and no model: one sentence and the next command."""

import json
from pathlib import Path

import pytest

from autoadapter.analyze import resolve_model
from autoadapter.errors import UserError


def refusal(folder: Path, document: object) -> UserError:
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps(document))
    (folder / "adapter_model.safetensors").write_bytes(b"")
    with pytest.raises(UserError) as caught:
        resolve_model(str(folder))
    return caught.value


def test_the_base_model_is_named(tmp_path: Path) -> None:
    error = refusal(tmp_path / "m", {"base_model_name_or_path": "meta-llama/Llama-3.1-8B", "peft_type": "LORA"})
    assert "is an adapter (LORA, adapter_config.json) and no model" in str(error)
    assert "its base model is meta-llama/Llama-3.1-8B" in str(error)
    assert (error.hint or "").startswith("autoadapter analyze meta-llama/Llama-3.1-8B")
    assert "--enable-lora" in (error.hint or "")


@pytest.mark.parametrize("document", [{}, {"base_model_name_or_path": ""}, {"base_model_name_or_path": 4}, []])
def test_a_base_model_that_is_not_named(tmp_path: Path, document: object) -> None:
    error = refusal(tmp_path / "m", document)
    assert "does not name its base model" in str(error) and error.hint


def test_a_hostile_name_stays_one_word(tmp_path: Path) -> None:
    error = refusal(tmp_path / "m", {"base_model_name_or_path": "x; rm -rf ~\n$(id)"})
    assert "\n" not in str(error)
    assert "analyze 'x; rm -rf ~" in (error.hint or "")
