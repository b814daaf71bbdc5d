"""Converting for real: the sample's GGUF, and `.bin` checkpoints of a tiny model, honest and hostile."""

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from autoadapter.artifacts import ModelProfile, Scheme
from autoadapter.engine import find_engine
from autoadapter.errors import AutoadapterError, WorkerError
from autoadapter.optimize.backend import Job
from autoadapter.optimize.backends import Convert
from autoadapter.optimize.checkpoint import read_headers
from autoadapter.optimize.texts import CALIBRATION
from autoadapter.options import Options
from autoadapter.pipeline import Pipeline, open_workspace

if TYPE_CHECKING:
    from autoadapter.artifacts import OptimizedModel

pytestmark = pytest.mark.engine
AS_IS = Scheme(name="as_is", backend=None, why="", source="")

MAKE_BIN = """
import sys, torch
from transformers import LlamaConfig, LlamaForCausalLM
torch.manual_seed(0)
config = LlamaConfig(vocab_size=96, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                     num_key_value_heads=2, max_position_embeddings=128, architectures=["LlamaForCausalLM"])
model = LlamaForCausalLM(config)
config.save_pretrained(sys.argv[1])
torch.save(model.state_dict(), sys.argv[1] + "/pytorch_model.bin")
"""

MAKE_HOSTILE = """
import pathlib, sys, torch
class Bomb:
    def __reduce__(self):
        return (pathlib.Path.touch, (pathlib.Path(sys.argv[2]),))
torch.save({"model.embed_tokens.weight": Bomb()}, sys.argv[1] + "/pytorch_model.bin")
"""


def run_engine_python(code: str, *arguments: str) -> None:
    subprocess.run([find_engine().python, "-c", code, *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def bin_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fp32 `.bin` checkpoint without tokenizer."""
    folder = tmp_path_factory.mktemp("bin")
    run_engine_python(MAKE_BIN, str(folder))
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 128}')
    return folder


def profile_of(folder: Path, tmp_path: Path) -> ModelProfile:
    workspace = open_workspace(str(folder), None, tmp_path / "workspace")
    return Pipeline(workspace, Options()).analyze().artifact


def convert(profile: ModelProfile, source: Path, tmp_path: Path) -> Path:
    output = tmp_path / "output"
    output.mkdir()
    Convert().run(
        Job(
            profile=profile,
            scheme=AS_IS,
            source=source,
            output=output,
            logs=tmp_path / "logs",
            python=find_engine().python,
            calibration=CALIBRATION,
            samples=0,
        )
    )
    return output


def test_the_sample_lost_no_parameter(optimized_sample: "OptimizedModel", sample_gguf: Path) -> None:
    headers = read_headers(Path(optimized_sample.reference_path))
    assert sum(tensor.elements for tensor in headers.values()) == 134_515_008
    assert {tensor.dtype for tensor in headers.values()} == {"BF16"}
    step = next(step for step in optimized_sample.steps if step.name == "convert")
    assert step.tool.startswith("transformers ")
    assert step.seconds > 0
    assert step.peak_rss_bytes > sample_gguf.stat().st_size
    names = {path.name for path in Path(optimized_sample.reference_path).iterdir()}
    assert {"config.json", "tokenizer.json", "chat_template.jinja", "generation_config.json"} <= names


def test_bin_becomes_bf16_safetensors(bin_folder: Path, tmp_path: Path) -> None:
    profile = profile_of(bin_folder, tmp_path)
    output = convert(profile, bin_folder, tmp_path)
    headers = read_headers(output)
    assert {tensor.dtype for tensor in headers.values()} == {"BF16"}
    assert sum(tensor.elements for tensor in headers.values()) == profile.tensors.parameters
    assert not list(output.glob("*.bin"))
    assert (output / "tokenizer_config.json").read_bytes() == (bin_folder / "tokenizer_config.json").read_bytes()
    before, after = (json.loads((folder / "config.json").read_text()) for folder in (bin_folder, output))
    assert after["dtype"] == "bfloat16"
    assert {key: value for key, value in after.items() if key != "dtype"} == {
        key: value for key, value in before.items() if key != "dtype"
    }


def test_a_pickle_with_code_never_runs(bin_folder: Path, tmp_path: Path) -> None:
    profile = profile_of(bin_folder, tmp_path)
    hostile, touched = tmp_path / "hostile", tmp_path / "touched"
    hostile.mkdir()
    (hostile / "config.json").write_bytes((bin_folder / "config.json").read_bytes())
    run_engine_python(MAKE_HOSTILE, str(hostile), str(touched))
    with pytest.raises(WorkerError) as caught:
        convert(profile, hostile, tmp_path)
    assert "Weights only load failed" in str(caught.value.cause)
    assert not touched.exists()


def test_invented_weights_are_refused(bin_folder: Path, tmp_path: Path) -> None:
    """A config that asks for a layer more than the checkpoint holds: transformers alone would fill it with noise."""
    profile = profile_of(bin_folder, tmp_path)
    deeper = tmp_path / "deeper"
    deeper.mkdir()
    (deeper / "pytorch_model.bin").write_bytes((bin_folder / "pytorch_model.bin").read_bytes())
    config = json.loads((bin_folder / "config.json").read_text())
    (deeper / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
    with pytest.raises(WorkerError, match="lacks 9 tensors"):
        convert(profile, deeper, tmp_path)


def test_a_cut_gguf_is_refused(sample_gguf: Path, optimized_sample: "OptimizedModel", tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    with sample_gguf.open("rb") as file:
        cut.write_bytes(file.read(sample_gguf.stat().st_size // 2))
    profile = profile_of(sample_gguf, tmp_path)
    with pytest.raises(AutoadapterError):
        convert(profile, cut, tmp_path)
