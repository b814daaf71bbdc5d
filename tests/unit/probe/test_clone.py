"""Tiny clones of transformers' own classes and of remote code."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import scramble
import torch
from torch import nn

from autoadapter.probe.workers.clone import class_default_config, make_clone, open_clone, probe_ids
from autoadapter.probe.workers.clone.loading import logits_of
from autoadapter.probe.workers.clone.weights import initialise, kind_of


@pytest.mark.parametrize("architecture", ["Gemma2ForCausalLM", "Qwen3MoeForCausalLM", "GPTNeoForCausalLM"])
def test_a_clone(architecture: str, tmp_path: Path) -> None:
    """It is small, causal, spread to logits of the same size, and the same after it is opened again."""
    report = make_clone(class_default_config(architecture), tmp_path)
    model, config = open_clone(tmp_path)
    assert report.causal
    assert not report.leaks_between_rows
    assert 1.5 < report.logits_std < 2.6
    assert report.parameters < 4_000_000
    assert len(report.layers) == config.num_hidden_layers
    ids = probe_ids(config)
    assert float(logits_of(model, ids).std()) == pytest.approx(report.logits_std, rel=1e-5)
    assert json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))["architectures"] == [architecture]


@pytest.mark.usefixtures("own_modules")
@pytest.mark.parametrize("architecture", ["LlamaForCausalLM", "GPTNeoForCausalLM"])
def test_remote_code_under_other_names(architecture: str, tmp_path: Path) -> None:
    """The clone of scrambled code computes the same with the same weights."""
    config = class_default_config(architecture)
    make_clone(config, tmp_path / "plain")
    plain, _ = open_clone(tmp_path / "plain")
    scrambled = scramble.scramble_code(config, tmp_path / "code")
    make_clone(scrambled, tmp_path / "clone", code=tmp_path / "code")
    twin, settings = open_clone(tmp_path / "clone", trust_remote_code=True)
    names = scramble.copy_weights(plain, twin)
    ids = probe_ids(settings)
    assert torch.equal(logits_of(plain, ids), logits_of(twin, ids))
    assert _words(names) & _words(names.values()) <= {"weight", "bias"}


def _words(names: Iterable[str]) -> set[str]:
    return {part for name in names for part in name.split(".") if not part.isdigit()}


def test_a_bidirectional_model_is_refused(tmp_path: Path) -> None:
    """Only classes of causal language models are cloned."""
    with pytest.raises(ValueError, match="RobertaForMaskedLM"):
        make_clone({"model_type": "roberta", "architectures": ["RobertaForMaskedLM"]}, tmp_path)


def test_a_model_with_other_parts_is_refused(tmp_path: Path) -> None:
    """A vision tower is not a decoder's."""
    config = {"model_type": "gemma3", "vision_config": {"hidden_size": 1152}}
    with pytest.raises(ValueError, match="vision_config"):
        make_clone(config, tmp_path)


def test_fresh_values_tell_what_a_parameter_is() -> None:
    """Norms of w and of 1 + w, biases, computed tables."""
    kinds: dict[str, Any] = {
        "ones": torch.ones(8),
        "zeros": torch.zeros(8),
        "random": torch.randn(8, 8) * 0.02,
        "structured": torch.log(torch.arange(1.0, 9.0)),
    }
    assert {kind: kind_of(tensor) for kind, tensor in kinds.items()} == {kind: kind for kind in kinds}


def test_initialise_leaves_nothing_neutral() -> None:
    """No norm is one, no bias is zero; a stored table that was computed stays."""
    linear, norm = nn.Linear(8, 8), nn.LayerNorm(8)
    model = nn.Sequential(linear, norm)
    nn.init.zeros_(linear.bias)
    table = torch.linspace(1, 2, 8)
    model.register_buffer("table", table.clone())
    initialise(model, 0)
    assert bool((linear.bias != 0).all())
    assert bool(((norm.weight - 1).abs() <= 0.4).all())
    assert bool((norm.bias != 0).all())
    assert torch.equal(model.get_buffer("table"), table)
