"""Quantizing for real, in the quantizer's own environment."""

import hashlib
import json
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from autoadapter.artifacts import Scheme
from autoadapter.optimize.backend import Job
from autoadapter.optimize.backends import LlmCompressor
from autoadapter.optimize.checkpoint import read_headers
from autoadapter.optimize.environments import environment

if TYPE_CHECKING:
    from autoadapter.artifacts import OptimizedModel
    from autoadapter.pipeline import Pipeline

pytestmark = [pytest.mark.engine, pytest.mark.quantizer]
LINEAR_LAYERS = 30 * 7


def test_int8_is_stored_as_int8(optimized_sample: "OptimizedModel") -> None:
    headers = read_headers(Path(optimized_sample.model_path))
    stored = {name: tensor.dtype for name, tensor in headers.items()}
    assert list(stored.values()).count("I8") == LINEAR_LAYERS
    assert stored["model.embed_tokens.weight"] == "BF16"
    assert 0.55 < optimized_sample.bytes_after / optimized_sample.bytes_before < 0.65


def test_files_travel_unchanged(optimized_sample: "OptimizedModel") -> None:
    served, reference = Path(optimized_sample.model_path), Path(optimized_sample.reference_path)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"):
        assert (served / name).read_bytes() == (reference / name).read_bytes()
    after, before = (json.loads((folder / "config.json").read_text()) for folder in (served, reference))
    assert after.pop("quantization_config")["quant_method"] == "compressed-tensors"
    assert after == before
    for name, size, digest in optimized_sample.files:
        content = (served / name).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (size, digest)


def test_the_cost_is_measured(optimized_sample: "OptimizedModel") -> None:
    """INT8 loses a little on this model, and more than noise; measured +0.03 to +0.04 nats."""
    quality = optimized_sample.quality
    assert quality is not None
    assert quality.tokens > 1000
    assert 0 < quality.delta_nll < 0.15
    assert quality.delta_nll > 2 * quality.delta_nll_se
    assert quality.perplexity_after > quality.perplexity_before > 1


def test_the_recorded_command_repeats_the_work(optimized_sample: "OptimizedModel", tmp_path: Path) -> None:
    step = next(step for step in optimized_sample.steps if step.name == "quantize")
    subprocess.run(shlex.split(step.command), cwd=tmp_path, check=True, capture_output=True)
    again = (tmp_path / "repeated-output" / "model.safetensors").read_bytes()
    assert (
        hashlib.sha256(again).hexdigest()
        == {name: digest for name, _, digest in optimized_sample.files}["model.safetensors"]
    )


@pytest.mark.timeout(600)
def test_gptq_packs_four_bits_on_ones_own_text(
    sample_pipeline: "Pipeline", optimized_sample: "OptimizedModel", tmp_path: Path
) -> None:
    from autoadapter.artifacts import ModelProfile

    text = tmp_path / "mine.txt"
    text.write_text("\n\n".join(f"Order {number} left the warehouse on day {number % 31}." for number in range(200)))
    output = tmp_path / "output"
    output.mkdir()
    job = Job(
        profile=ModelProfile.read(sample_pipeline.workspace.profile_path),
        scheme=Scheme(
            name="w4a16_gptq", backend="llmcompressor", options={"group_size": 64}, why="test", source="test"
        ),
        source=Path(optimized_sample.reference_path),
        output=output,
        logs=tmp_path / "logs",
        python=environment("llmcompressor"),
        calibration=text,
        samples=2,
    )
    made = LlmCompressor(group_size=64).run(job)
    dtypes = [tensor.dtype for tensor in read_headers(output).values()]
    assert dtypes.count("I32") == LINEAR_LAYERS
    (finding,) = made.findings
    assert "2 samples of 512 tokens" in finding.message
    assert "as plain text" in finding.message
    groups = json.loads((output / "config.json").read_text())["quantization_config"]["config_groups"]
    assert groups["group_0"]["weights"]["group_size"] == 64
    assert groups["group_0"]["weights"]["actorder"] == "static"
