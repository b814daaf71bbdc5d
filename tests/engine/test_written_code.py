"""A model that no library has goes from its own code to a bundle with a proven vLLM plugin that needs none of it."""

import json
from pathlib import Path

import pytest
from odd_checkpoint import write_checkpoint

from autoadapter.artifacts import Route, Status
from autoadapter.errors import UnsupportedModelError
from autoadapter.options import Options
from autoadapter.pipeline import Pipeline, open_workspace

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


def test_remote_code_to_bundle(tmp_path: Path) -> None:
    model = write_checkpoint(tmp_path / "murmur")
    workspace = open_workspace(str(model), None, tmp_path / "workspace")
    untrusted = Pipeline(workspace, Options(scheme="as_is"))
    untrusted.analyze()
    with pytest.raises(UnsupportedModelError, match="must run once"):
        untrusted.generate()
    options = Options(scheme="as_is", trust_remote_code=True, only=("code",), require_passed=False)
    pipeline = Pipeline(workspace, options)
    assert pipeline.analyze().artifact.verdict.route is Route.GENERATED
    plan = pipeline.generate()
    assert pipeline.generate().skipped
    pipeline.optimize()
    (check,) = pipeline.test().artifact.checks
    assert check.status is Status.PASSED, check.reason
    assert check.measured["answered_by"] == "vllm_adapter_murmur.model:MurmurForCausalLM"
    bundle = pipeline.deploy().path.parent
    assert "trust-remote-code" not in (bundle / "vllm/config.yaml").read_text(encoding="utf-8")
    assert (bundle / "plugin/vllm_adapter_murmur/configuration.py").is_file()
    spec = json.loads((plan.path.parent / "adapter/plugin/spec.json").read_text(encoding="utf-8"))
    (kind,) = spec["kinds"]
    attention, mlp = (branch["mixer"] for branch in kind["branches"])
    assert (attention["rope"]["style"], attention["q_bias"], mlp["activation"]) == ("interleaved", True, "relu2")
    assert mlp["gated"] is False and spec["embedding"]["scale"]["key"] == "whisper_multiplier"
