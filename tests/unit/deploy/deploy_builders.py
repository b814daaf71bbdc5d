"""Hand-made plans, checkpoints, adapters and reports, small enough to read."""

import hashlib
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from autoadapter.artifacts import (
    AdapterBundle,
    Belief,
    CheckResult,
    Depth,
    EngineRun,
    EngineSetting,
    EnvSetting,
    Hardware,
    Machine,
    MemoryBudget,
    ModelKind,
    ModelRef,
    OptimizedModel,
    Parallelism,
    Route,
    Scheme,
    ServingPlan,
    Status,
    Strategy,
    VerificationReport,
    Workload,
)
from autoadapter.deploy import DeployRequest

GIB = 1024**3
CPU = Hardware(name="cpu", kind="cpu", count=1, memory_bytes=24 * GIB, source="test")
H200X8 = Hardware(
    name="h200",
    kind="cuda",
    count=8,
    memory_bytes=140 * GIB,
    compute_capability="9.0",
    source="hardware/gpus.yaml#h200",
)
HOSTILE_NAME = """evil"model': {{ x }} $(touch pwned) `id` | <b>\n---\nRUN x ${HOME} 模型"""
AS_IS = Scheme(name="as_is", backend=None, why="nothing is changed", source="test")


def setting(flag: str, value: Any) -> EngineSetting:
    return EngineSetting(flag=flag, value=value, why="test", source="test", belief=Belief.COMPUTED)


def make_plan(
    name: str = "acme/Tiny-1B-Instruct",
    hardware: Hardware = CPU,
    tensor_parallel_size: int = 1,
    served_name: str | None = None,
    env: Mapping[str, str] | None = None,
    **settings: Any,
) -> ServingPlan:
    served = served_name or name.rsplit("/", 1)[-1].lower()
    flags = {"served-model-name": (served,), "dtype": "bfloat16", "max-model-len": 2048}
    if tensor_parallel_size > 1:
        flags["tensor-parallel-size"] = tensor_parallel_size
    flags |= {flag.replace("_", "-"): value for flag, value in settings.items()}
    return ServingPlan(
        tool_version="0.1.0",
        model=ModelRef(kind=ModelKind.HUB, location=name, revision="main", commit="c" * 40),
        profile_digest="1" * 64,
        route=Route.NATIVE,
        strategy=Strategy.BALANCED,
        hardware=hardware,
        workload=Workload(),
        vllm_version="0.32.0",
        served_name=served,
        scheme=AS_IS,
        parallelism=Parallelism(tensor_parallel_size=tensor_parallel_size),
        settings=tuple(setting(flag, value) for flag, value in flags.items()),
        env=tuple(EnvSetting(name=key, value=value, why="test", source="test") for key, value in (env or {}).items()),
        memory=MemoryBudget(
            device_bytes=hardware.memory_bytes,
            weight_bytes=2 * GIB,
            overhead_bytes=GIB,
            kv_pool_bytes=4 * GIB,
            kv_bytes_per_token=22528,
            kv_tokens=190650,
            max_concurrency=93.0,
            provenance={"weight_bytes": "computed"},
        ),
        rejected=(),
        findings=(),
    )


def make_weights(folder: Path, plan: ServingPlan) -> OptimizedModel:
    """A folder with three small files, and the record of it."""
    content = {
        "config.json": b'{"model_type": "llama"}\n',
        "model.safetensors": b"\x00" * 64,
        "tokenizer_config.json": b'{"chat_template": "{{ messages }}"}\n',
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in content.items():
        (folder / name).write_bytes(data)
        (folder / name).chmod(0o644)
    size = sum(len(data) for data in content.values())
    return OptimizedModel(
        tool_version="0.1.0",
        plan_digest=plan.digest(),
        scheme=plan.scheme,
        model_path=str(folder),
        reference_path=str(folder),
        bytes_before=size,
        bytes_after=size,
        files=tuple((name, len(data), hashlib.sha256(data).hexdigest()) for name, data in content.items()),
        steps=(),
        quality=None,
        findings=(),
    )


def make_adapter(folder: Path, plan: ServingPlan) -> Path:
    """What `generate` writes, as far as `deploy` reads it."""
    (folder / "vllm").mkdir(parents=True)
    (folder / "tokenizer").mkdir()
    options = {row.flag: list(row.value) if isinstance(row.value, tuple) else row.value for row in plan.settings}
    (folder / "vllm/config.yaml").write_text(yaml.safe_dump(options, sort_keys=False, allow_unicode=True))
    lines = ["# variables of the server", *(f"{row.name}={shlex.quote(row.value)}" for row in plan.env)]
    (folder / "vllm/env").write_text("\n".join(lines) + "\n")
    (folder / "tokenizer/tokenizer_config.json").write_text("{}\n")
    manifest = AdapterBundle(tool_version="0.1.0", plan_digest=plan.digest(), files=(), findings=())
    (folder / "adapter.json").write_text(manifest.to_json())
    return folder


def make_report(
    plan: ServingPlan,
    optimized: OptimizedModel,
    status: Status = Status.PASSED,
    cold_start: float = 45.0,
    gpus: tuple[str, ...] = (),
) -> VerificationReport:
    run = EngineRun(
        role="candidate",
        vllm_version=plan.vllm_version,
        model_path=optimized.model_path,
        cold_start_seconds=cold_start,
        kv_cache_tokens=190000,
        num_gpu_blocks=11875,
        log="logs/candidate.log",
        command="vllm serve",
    )
    parity = CheckResult(
        name="parity",
        title="same logits",
        status=status,
        reason="largest difference 0.01",
        seconds=1.0,
        measured={"largest": 0.01},
        thresholds=(),
        command="autoadapter test --only parity",
    )
    machine = Machine(cpu="x", cores=2, memory_bytes=24 * GIB, gpus=gpus, platform="Linux", python="3.12")
    return VerificationReport(
        tool_version="0.1.0",
        plan_digest=plan.digest(),
        optimized_digest=optimized.digest(),
        depth=Depth.SMOKE,
        started_at="2026-01-01T00:00:00+00:00",
        route=plan.route,
        machine=machine,
        engine_runs=(run,),
        checks=(parity, *(parity.model_copy(update={"name": name}) for name in ("quality", "tokenizer"))),
        findings=(),
    )


def make_request(root: Path, plan: ServingPlan | None = None, *, report: bool = True, **fields: Any) -> DeployRequest:
    """A request whose inputs are all on disk below `root`."""
    plan = plan or make_plan()
    optimized = make_weights(fields.pop("weights", root / "weights"), plan)
    given = {
        "plan": plan,
        "optimized": optimized,
        "adapter": make_adapter(root / "adapter", plan),
        "report": make_report(plan, optimized) if report else None,
        "folder": root / "plans" / "bundle",
        "require_passed": report,
    }
    return DeployRequest(**{**given, **fields})
