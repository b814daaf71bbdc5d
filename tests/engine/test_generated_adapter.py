"""The adapter that `generate` wrote, against the quantized sample on a real vLLM: what an operator would run."""

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from autoadapter.artifacts import OptimizedModel, ServingPlan
from autoadapter.engine import EngineServer, find_engine

if TYPE_CHECKING:
    from autoadapter.pipeline import Pipeline

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]
START_SECONDS = 400.0


def test_the_generated_tests_pass_against_the_real_server(
    sample_pipeline: "Pipeline", optimized_sample: OptimizedModel, tmp_path: Path
) -> None:
    folder = sample_pipeline.workspace.plan_folder
    plan = ServingPlan.read(folder / ServingPlan.file_name)
    env = {variable.name: variable.value for variable in plan.env}
    model, config = Path(optimized_sample.model_path), folder / "adapter" / "vllm" / "config.yaml"
    with EngineServer(find_engine(), model, config, log=tmp_path / "serve.log", env=env) as server:
        server.start().wait_until_ready(START_SECONDS)
        command = [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider", "tests"]
        where = {"AUTOADAPTER_MODEL": str(model), "AUTOADAPTER_BASE_URL": server.base_url}
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=folder / "adapter", env={**os.environ, **where}, timeout=300
        )
        found = server.startup
    assert done.returncode == 0, done.stdout
    assert "skipped" not in done.stdout
    assert found.kv_cache_tokens == plan.memory.kv_tokens
    assert found.max_concurrency == pytest.approx(plan.memory.max_concurrency, abs=0.01)
