"""The code of real models with every class, module and weight renamed gives the spec that the real names give."""

from pathlib import Path
from typing import Any, cast

import pytest
import scramble
from transformers import PreTrainedModel

from autoadapter.artifacts.decoder import DecoderSpec
from autoadapter.probe.workers.clone import class_default_config, make_clone, open_clone
from autoadapter.probe.workers.fit.decoder import fit_decoder

OF_NAMES = {"architecture", "model_type", "config_seen", "weights", "ignored"}


@pytest.mark.usefixtures("own_modules")
@pytest.mark.parametrize("architecture", ["Gemma2ForCausalLM", "Qwen3MoeForCausalLM"])
def test_the_same_spec(architecture: str, tmp_path: Path) -> None:
    """Also from another folder, as remote code, with the same weights under other names."""
    config = class_default_config(architecture)
    make_clone(config, tmp_path / "plain")
    twin, code = tmp_path / "twin", tmp_path / "code"
    make_clone(scramble.scramble_code(config, code), twin, code=code)
    model, _ = open_clone(twin, trust_remote_code=True)
    scramble.copy_weights(open_clone(tmp_path / "plain")[0], model)
    cast("PreTrainedModel", model).save_pretrained(twin)
    plain, renamed = fit_decoder(tmp_path / "plain"), fit_decoder(twin, trust_remote_code=True)
    assert renamed.architecture != plain.architecture
    assert without_names(renamed) == without_names(plain)


def without_names(spec: DecoderSpec) -> dict[str, Any]:
    return spec.model_dump(mode="json", exclude=OF_NAMES)
