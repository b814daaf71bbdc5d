"""Probing as the other rooms call it: refusals, the kept spec, code that may not run."""

import json
import sys
from pathlib import Path
from typing import Any

import hand_specs
import pytest

from autoadapter.artifacts.decoder import DecoderSpec
from autoadapter.engine import WorkerOutcome
from autoadapter.errors import UnsupportedModelError
from autoadapter.probe import probe, run

PYTHON = Path(sys.executable)
CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}
UNEXPLAINED = {
    "refused": "fit",
    "why": "no candidate reproduces it",
    "block": "model.layers.0.self_attn",
    "candidates": [["rope half", 0.5], ["rope none", 0.75], ["alibi", 0.9]],
    "network": "not needed",
}


class Worker:
    """Stands for the subprocess."""

    def __init__(self, result: dict[str, Any]) -> None:
        self.result, self.requests = result, list[dict[str, Any]]()

    def __call__(self, python: Path, script: Path, request: dict[str, Any], **rest: Any) -> WorkerOutcome:
        self.requests.append(request)
        if self.result.get("spec"):
            Path(request["clone"]).mkdir()
            Path(request["spec"]).write_text(hand_specs.llama_spec().to_json(), encoding="utf-8")
        return WorkerOutcome(self.result, 1.0, 0, "")


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Worker:
    stand_in = Worker({"spec": True, "network": "not needed", "clone": {}})
    monkeypatch.setattr(run, "run_worker", stand_in)
    return stand_in


def test_the_spec_is_kept_for_the_same_inputs(worker: Worker, tmp_path: Path) -> None:
    """Another config is probed anew."""
    first = probe(None, CONFIG, interpreter=PYTHON, out=tmp_path)
    assert probe(None, CONFIG, interpreter=PYTHON, out=tmp_path) == first
    assert len(worker.requests) == 1
    probe(None, CONFIG | {"hidden_size": 64}, interpreter=PYTHON, out=tmp_path)
    assert len(worker.requests) == 2
    assert DecoderSpec.read(tmp_path / "spec.json") == first


def test_an_unexplained_block_is_named(worker: Worker, tmp_path: Path) -> None:
    """With the two best candidates, and the evidence on disk."""
    worker.result = UNEXPLAINED
    with pytest.raises(UnsupportedModelError, match=r"layers.0.self_attn") as caught:
        probe(None, CONFIG, interpreter=PYTHON, out=tmp_path)
    assert "rope half (error 0.5) and rope none (error 0.75)." in str(caught.value)
    assert caught.value.exit_code == 4
    assert caught.value.hint
    failure = json.loads((tmp_path / "failure.json").read_text(encoding="utf-8"))
    assert failure["block"] == "model.layers.0.self_attn"
    assert len(failure["candidates"]) == 3


def test_code_runs_only_where_it_is_given(worker: Worker, tmp_path: Path) -> None:
    """And the hint says how to allow it."""
    config = CONFIG | {"auto_map": {"AutoConfig": "configuration_x.X"}}
    worker.result = UNEXPLAINED | {"refused": "clone", "why": "transformers does not know 'x'"}
    with pytest.raises(UnsupportedModelError, match="was not run") as caught:
        probe(None, config, interpreter=PYTHON, out=tmp_path)
    assert "--trust-remote-code" in str(caught.value.hint)
    assert worker.requests[0]["code"] is None


def test_a_failure_does_not_leave_an_older_spec(worker: Worker, tmp_path: Path) -> None:
    """What lies beside a failure is of the same run."""
    probe(None, CONFIG, interpreter=PYTHON, out=tmp_path)
    worker.result = UNEXPLAINED
    with pytest.raises(UnsupportedModelError):
        probe(None, CONFIG | {"hidden_size": 64}, interpreter=PYTHON, out=tmp_path)
    assert not (tmp_path / "spec.json").exists()
