"""Names say nothing: with every class, module and weight renamed the same spec comes out."""

from pathlib import Path
from typing import Any

import hand_models
import hand_specs
import pytest
import scrambled
from safetensors.torch import save_file

from autoadapter.artifacts.decoder import DecoderSpec
from autoadapter.probe.workers.clone import probe_ids
from autoadapter.probe.workers.fit.decoder import fit_scene
from autoadapter.probe.workers.fit.skeleton import watch

CONFIGS = {
    "llama": hand_specs.LLAMA_CONFIG,
    "gpt2": hand_specs.GPT2_CONFIG,
    "qwen3_moe": hand_specs.QWEN3_MOE_CONFIG,
}


@pytest.mark.parametrize("name", CONFIGS)
def test_the_same_spec(name: str, tmp_path: Path) -> None:
    """Only the checkpoint's own names differ."""
    plain, _ = fit(CONFIGS[name], tmp_path / "plain")
    other, names = fit(CONFIGS[name], tmp_path / "scrambled", scramble=True)
    assert len(names) > 10
    assert not names.keys() & set(names.values())
    assert _without_names(other) == _without_names(plain)
    assert {source.targets for source in other.weights} == {source.targets for source in plain.weights}


def fit(config: dict[str, Any], folder: Path, *, scramble: bool = False) -> tuple[DecoderSpec, dict[str, str]]:
    model, made = hand_models.hand_reference(config)
    names = scrambled.scramble(model) if scramble else {}
    folder.mkdir()
    save_file(
        {name: tensor.detach().contiguous() for name, tensor in model.named_parameters()}, folder / "m.safetensors"
    )
    return fit_scene(watch(model, made, probe_ids(made)), folder), names


def _without_names(spec: DecoderSpec) -> dict[str, Any]:
    return spec.model_dump(exclude={"weights", "ignored"})
