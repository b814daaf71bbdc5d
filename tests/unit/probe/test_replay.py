"""The replay computes what transformers computes, for specs written by hand."""

from pathlib import Path
from typing import Any

import hand_models
import hand_specs
import pytest
import torch

from autoadapter.artifacts.decoder import DecoderSpec
from autoadapter.probe.workers.flips import flips
from autoadapter.probe.workers.replay import replay
from autoadapter.probe.workers.weights import Reads, find_sources, read_parameters

HAND: dict[str, tuple[DecoderSpec, dict[str, Any]]] = {
    "llama": (hand_specs.llama_spec(), hand_specs.LLAMA_CONFIG),
    "gpt2": (hand_specs.gpt2_spec(), hand_specs.GPT2_CONFIG),
    "qwen3_moe": (hand_specs.qwen3_moe_spec(), hand_specs.QWEN3_MOE_CONFIG),
}


@pytest.mark.parametrize("name", HAND)
def test_replay_and_weights(name: str, tmp_path: Path) -> None:
    """Sources written by hand lead to the reference's logits, and the same sources are found by values."""
    spec, config = HAND[name]
    model = hand_models.hand_checkpoint(config, tmp_path)
    ids = hand_models.hand_ids(config)
    logits = hand_models.reference_logits(model, ids)
    parameters = read_parameters(spec, tmp_path)
    replayed = replay(spec, parameters, ids, config)
    assert torch.allclose(replayed.log_softmax(-1), logits.log_softmax(-1), atol=1e-4)
    sources, ignored = find_sources(spec, parameters, (), tmp_path, Reads(model, ids))
    assert sorted(sources, key=lambda s: s.checkpoint) == sorted(spec.weights, key=lambda s: s.checkpoint)
    assert ignored == ()


CHANGES: list[tuple[str, Any]] = [
    ("kinds.0.branches.0.mixer.rope.style", "interleaved"),
    ("kinds.0.branches.0.mixer.rope.theta", {"number": 1000.0}),
    ("kinds.0.branches.0.mixer.scale", {"number": 0.2}),
    ("kinds.0.branches.0.mixer.window", {"kind": "sliding", "size": {"number": 4}}),
    ("kinds.0.branches.0.mixer.softcap", {"number": 1.0}),
    ("kinds.0.branches.0.input_norm.weight", "one_plus"),
    ("kinds.0.branches.1.mixer.activation", "gelu"),
    ("kinds.0.branches.1.reads", "layer_input"),
    ("kinds.0.branches.1.output_scale", {"number": 0.5}),
    ("embedding.scale", {"number": 2.0}),
    ("head.softcap", {"number": 2.0}),
]


def test_every_field_counts() -> None:
    """A change of any field changes the logits; a flip to it is reported as exercised."""
    spec, config = HAND["llama"]
    model, _ = hand_models.hand_reference(config)
    ids = hand_models.hand_ids(config)
    logits = hand_models.reference_logits(model, ids)
    evidence = [
        {"path": path, "value": None, "max_error": 0.0, "runner_up": value, "runner_up_error": 1.0}
        for path, value in CHANGES
    ]
    seen = spec.with_value("evidence", evidence)
    parameters = _parameters(spec, model)
    result = flips(seen, parameters, ids, config, logits)
    assert [flip.path for flip in result if flip.exercised] == [path for path, _ in CHANGES]


def _parameters(spec: DecoderSpec, model: Any) -> dict[str, torch.Tensor]:
    own = dict(model.named_parameters())
    pairs = [(source, layer) for source in spec.weights for layer in range(3)]
    return {s.targets[0].format(layer=i): own[s.checkpoint.format(layer=i)].detach() for s, i in pairs}
