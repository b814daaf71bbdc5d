"""A bundle of the real sample model goes up on the real vLLM, answers, and goes down without a trace."""

import hashlib
import os
import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from autoadapter.artifacts import (
    AdapterBundle,
    Belief,
    EngineSetting,
    EnvSetting,
    Hardware,
    MemoryBudget,
    ModelKind,
    ModelRef,
    OptimizedModel,
    Parallelism,
    Route,
    Scheme,
    ServingPlan,
    Strategy,
    Target,
    Workload,
)
from autoadapter.deploy import DeployRequest, ServerState, Site, deploy, down, status, up
from autoadapter.engine import EngineTarget, find_engine
from autoadapter.engine.process import free_port
from autoadapter.errors import EngineError

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]
GIB = 1024**3
ENV = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}


def make_plan(engine: EngineTarget, **settings: Any) -> ServingPlan:
    flags = {"served-model-name": ("sample",), "dtype": "bfloat16", "max-model-len": 1024, "enforce-eager": True}
    flags |= {name.replace("_", "-"): value for name, value in settings.items()}
    rows = [
        EngineSetting(flag=flag, value=value, why="test", source="test", belief=Belief.USER)
        for flag, value in flags.items()
    ]
    return ServingPlan(
        tool_version="0.1.0",
        model=ModelRef(kind=ModelKind.FOLDER, location="/models/sample"),
        profile_digest="0" * 64,
        route=Route.NATIVE,
        strategy=Strategy.BALANCED,
        hardware=Hardware(name="cpu", kind="cpu", count=1, memory_bytes=8 * GIB, source="test"),
        workload=Workload(),
        vllm_version=engine.version,
        served_name="sample",
        scheme=Scheme(name="as_is", backend=None, why="test", source="test"),
        parallelism=Parallelism(),
        settings=tuple(rows),
        env=tuple(EnvSetting(name=name, value=value, why="test", source="test") for name, value in ENV.items()),
        memory=MemoryBudget(
            device_bytes=8 * GIB,
            weight_bytes=GIB,
            overhead_bytes=GIB,
            kv_pool_bytes=GIB,
            kv_bytes_per_token=23040,
            kv_tokens=46592,
            max_concurrency=45.5,
            provenance={},
        ),
        rejected=(),
        findings=(),
    )


def make_bundle(root: Path, model: Path, plan: ServingPlan) -> Path:
    files = [path for path in sorted(model.iterdir()) if path.is_file()]
    optimized = OptimizedModel(
        tool_version="0.1.0",
        plan_digest=plan.digest(),
        scheme=plan.scheme,
        model_path=str(model),
        reference_path=str(model),
        bytes_before=0,
        bytes_after=0,
        files=tuple((path.name, path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest()) for path in files),
        steps=(),
        quality=None,
        findings=(),
    )
    adapter = root / "adapter"
    (adapter / "vllm").mkdir(parents=True)
    options = {row.flag: list(row.value) if isinstance(row.value, tuple) else row.value for row in plan.settings}
    (adapter / "vllm/config.yaml").write_text(yaml.safe_dump(options))
    (adapter / "vllm/env").write_text("".join(f"{row.name}={row.value}\n" for row in plan.env))
    manifest = AdapterBundle(tool_version="0.1.0", plan_digest=plan.digest(), files=(), findings=())
    (adapter / "adapter.json").write_text(manifest.to_json())
    request = DeployRequest(
        plan=plan,
        optimized=optimized,
        adapter=adapter,
        report=None,
        folder=root / "bundle",
        targets=(Target.LOCAL,),
        site=Site(port=free_port()),
        require_passed=False,
    )
    deploy(request)
    return request.folder


def test_up_chat_status_down(sample_model: Path, tmp_path: Path) -> None:
    engine = find_engine()
    bundle = make_bundle(tmp_path, sample_model, make_plan(engine, shutdown_timeout=60, dtype="float32"))
    record = up(bundle, engine=engine, timeout=400)
    try:
        seen = status(bundle)
        assert seen.state is ServerState.ANSWERING and seen.models == ("sample",)
        message = {"role": "user", "content": "What is the capital of France?"}
        body = {"model": "sample", "messages": [message], "max_tokens": 24, "temperature": 0}
        url = f"http://{record.host}:{record.port}/v1/chat/completions"
        answer = httpx.post(url, json=body, timeout=120, trust_env=False).json()
        assert "Paris" in answer["choices"][0]["message"]["content"]
        smoke = subprocess.run(["python3", "smoke.py"], cwd=bundle, capture_output=True, text=True, check=False)
        assert smoke.returncode == 0, smoke.stdout + smoke.stderr
        with ThreadPoolExecutor() as pool:
            long = {"model": "sample", "prompt": "Once", "max_tokens": 120, "ignore_eos": True, "temperature": 0}
            base = f"http://{record.host}:{record.port}"
            in_flight = pool.submit(httpx.post, f"{base}/v1/completions", json=long, timeout=120, trust_env=False)
            while not running(base):
                time.sleep(0.05)
            down(bundle)
            answer = in_flight.result()
        assert answer.status_code == 200, "a request in flight was cut off"
        assert answer.json()["usage"]["completion_tokens"] == 120
    finally:
        down(bundle)
    assert status(bundle).state is ServerState.STOPPED
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://{record.host}:{record.port}/health", trust_env=False)
    left = [entry for entry in Path("/proc").glob("[0-9]*/stat") if _group_of_living(entry) == record.process_group]
    assert not left


def running(base: str) -> bool:
    """Whether the server works on a request."""
    metrics = httpx.get(f"{base}/metrics", trust_env=False).text
    values = re.findall(r"^vllm:num_requests_running\{[^}]*\} (\S+)", metrics, re.MULTILINE)
    return sum(map(float, values)) > 0


def _group_of_living(entry: Path) -> int | None:
    try:
        state, _, group = entry.read_text().rpartition(")")[2].split()[:3]
    except OSError:
        return None
    return None if state == "Z" else int(group)


def test_an_option_that_vllm_refuses_is_quoted(sample_model: Path, tmp_path: Path) -> None:
    engine = find_engine()
    bundle = make_bundle(tmp_path, sample_model, make_plan(engine, max_model_length=1024))
    with pytest.raises(EngineError, match="max-model-length"):
        up(bundle, engine=engine, timeout=200)
    assert not (tmp_path / "server.json").exists() and status(bundle).state is ServerState.STOPPED


def test_interrupt_while_vllm_starts(sample_model: Path, tmp_path: Path) -> None:
    engine = find_engine()
    bundle = make_bundle(tmp_path, sample_model, make_plan(engine))
    groups: list[int] = []

    def interrupt(text: str, fraction: float | None = None) -> None:
        if "importing" not in text and text.startswith("vLLM:"):
            groups.append(status(bundle).process_group or 0)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        up(bundle, engine=engine, progress=interrupt, timeout=200)
    with pytest.raises(ProcessLookupError):
        os.killpg(groups[0], 0)
    assert not (tmp_path / "server.json").exists()
