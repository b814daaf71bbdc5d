"""A whole decoder is fitted from its reference alone, and comes out as it was written by hand."""

from pathlib import Path
from typing import Any

import hand_models
import hand_specs
import pytest

from autoadapter.artifacts.decoder import DecoderSpec
from autoadapter.probe.workers.fit.decoder import fit_decoder

HAND: dict[str, tuple[DecoderSpec, dict[str, Any]]] = {
    "llama": (hand_specs.llama_spec(), hand_specs.LLAMA_CONFIG),
    "gpt2": (hand_specs.gpt2_spec(), hand_specs.GPT2_CONFIG),
    "qwen3_moe": (hand_specs.qwen3_moe_spec(), hand_specs.QWEN3_MOE_CONFIG),
}
STATED_ELSEWHERE = {"config_seen", "evidence", "replay_error", "reference", "pattern"}


@pytest.mark.parametrize("name", HAND)
def test_fit_equals_the_hand_written_spec(name: str, tmp_path: Path) -> None:
    """Every field but the evidence is what a person wrote down."""
    hand, config = HAND[name]
    hand_models.hand_checkpoint(config, tmp_path)
    fitted = fit_decoder(tmp_path)
    assert fitted.replay_error < 1e-4
    assert fitted.pattern.kinds == hand.pattern.kinds
    assert _numbers(fitted.model_dump(exclude=STATED_ELSEWHERE)) == _numbers(hand.model_dump(exclude=STATED_ELSEWHERE))


def test_rules_and_evidence(tmp_path: Path) -> None:
    """The dense layer among sparse ones is told by the config, and every piece of evidence names a field."""
    hand_models.hand_checkpoint(hand_specs.QWEN3_MOE_CONFIG, tmp_path)
    fitted = fit_decoder(tmp_path)
    assert [(rule.rule, rule.key) for rule in fitted.pattern.rules] == [("member", "mlp_only_layers")]
    told = [seen for seen in fitted.evidence if seen.runner_up is not None]
    assert len(told) > 10
    for seen in told:
        fitted.with_value(seen.path, seen.runner_up)


def _numbers(document: Any) -> Any:
    """Values by their numbers alone: which of two equal keys is named is tested elsewhere."""
    if isinstance(document, dict):
        if document.keys() == {"number", "key", "form", "factor"}:
            return pytest.approx(document["number"])
        return {name: _numbers(value) for name, value in document.items()}
    if isinstance(document, list | tuple):
        return (
            sorted((_numbers(v) for v in document), key=_by_checkpoint)
            if _are_sources(document)
            else [*map(_numbers, document)]
        )
    return document


def _are_sources(document: Any) -> bool:
    return bool(document) and isinstance(document[0], dict) and "checkpoint" in document[0]


def _by_checkpoint(source: Any) -> str:
    return str(source["checkpoint"])
