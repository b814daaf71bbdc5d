"""A stage is skipped only while everything it was made from, and everything it wrote, is unchanged."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from autoadapter.artifacts import (
    CheckResult,
    Depth,
    Status,
    Target,
    VerificationReport,
)
from autoadapter.errors import VerificationFailedError
from autoadapter.hardware import this_machine
from autoadapter.options import Options
from autoadapter.pipeline import Pipeline, open_workspace

BASE = {"scheme": "as_is", "require_passed": False}


@pytest.fixture
def bundled(tiny_model: Path, tmp_path: Path) -> Pipeline:
    """The tiny model, bundled as it is and untested."""
    pipeline = Pipeline(open_workspace(str(tiny_model), None, tmp_path / "ws"), Options.model_validate(BASE))
    for stage in ("analyze", "generate", "optimize", "deploy"):
        getattr(pipeline, stage)()
    return pipeline


def skipped(pipeline: Pipeline, **changes: object) -> dict[str, bool]:
    again = Pipeline(pipeline.workspace, Options.model_validate({**BASE, **changes}))
    return {stage: getattr(again, stage)().skipped for stage in ("analyze", "generate", "optimize", "deploy")}


def test_nothing_changed(bundled: Pipeline) -> None:
    assert all(skipped(bundled).values())


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ({"hardware": "l4"}, "analyze"),
        ({"trust_remote_code": True}, "analyze"),
        ({"vllm_version": "0.33.0"}, "analyze"),
        ({"strategy": "min_mem"}, "generate"),
        ({"served_name": "x"}, "generate"),
        ({"samples": 3}, "optimize"),
        ({"port": 8123}, "deploy"),
        ({"site": {"namespace": "there"}}, "deploy"),
        ({"targets": (Target.LOCAL,)}, "deploy"),
        ({"image": "vllm/vllm-openai:v0.32.1"}, "deploy"),
        ({"force": True}, "analyze"),
    ],
)
def test_an_option_makes_its_stage_run(bundled: Pipeline, changes: dict[str, object], first: str) -> None:
    again = skipped(bundled, **changes)
    assert not again[first]
    before = list(again)[: list(again).index(first)]
    assert all(again[stage] for stage in before)


def test_what_analyze_was_told_holds_for_the_plan(tiny_model: Path, tmp_path: Path) -> None:
    workspace = open_workspace(str(tiny_model), None, tmp_path / "ws")
    told = {**BASE, "vllm_version": "0.33.0", "trust_remote_code": True}
    Pipeline(workspace, Options.model_validate(told)).analyze()
    plan = Pipeline(workspace, Options.model_validate(BASE)).generate().artifact
    assert plan.vllm_version == "0.33.0"
    assert Pipeline(workspace, Options.model_validate(told)).analyze().skipped, "the plan had it analyzed otherwise"


def edit_weights(workspace: Path, model: Path) -> None:
    data = bytearray((model / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (model / "model.safetensors").write_bytes(data)


def edit_config(workspace: Path, model: Path) -> None:
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "rope_theta": 5e5}))


def drop_config(workspace: Path, model: Path) -> None:
    next(workspace.glob("plans/*/adapter/vllm/config.yaml")).unlink()


def edit_adapter(workspace: Path, model: Path) -> None:
    with next(workspace.glob("plans/*/adapter/vllm/config.yaml")).open("a") as file:
        file.write("seed: 3\n")


def edit_bundle(workspace: Path, model: Path) -> None:
    with next(workspace.glob("plans/*/bundle/vllm/config.yaml")).open("a") as file:
        file.write("seed: 3\n")


def drop_target(workspace: Path, model: Path) -> None:
    shutil.rmtree(next(workspace.glob("plans/*/bundle/kubernetes")))


@pytest.mark.parametrize(
    ("change", "first"),
    [
        (edit_weights, "analyze"),
        (edit_config, "analyze"),
        (drop_config, "generate"),
        (edit_adapter, "generate"),
        (edit_bundle, "deploy"),
        (drop_target, "deploy"),
    ],
)
def test_a_changed_file_makes_its_stage_run(
    bundled: Pipeline, tiny_model: Path, change: Callable[[Path, Path], None], first: str
) -> None:
    change(bundled.workspace.root, tiny_model)
    assert not skipped(bundled)[first]
    assert all(skipped(bundled).values())


def test_weights_changed_in_place_get_new_hashes(bundled: Pipeline, tiny_model: Path) -> None:
    before = bundled.optimize().artifact.files
    edit_weights(bundled.workspace.root, tiny_model)
    assert not skipped(bundled)["optimize"]
    assert bundled.optimize().artifact.files != before


def test_another_calibration_text_quantizes_anew(bundled: Pipeline, tmp_path: Path) -> None:
    text = tmp_path / "calibration.txt"
    text.write_text("one")
    assert not skipped(bundled, calibration=text)["optimize"]
    assert skipped(bundled, calibration=text)["optimize"]
    text.write_text("two")
    assert not skipped(bundled, calibration=text)["optimize"]


def test_an_untested_bundle_does_not_open_the_gate(bundled: Pipeline) -> None:
    strict = Pipeline(bundled.workspace, Options(scheme="as_is"))
    with pytest.raises(VerificationFailedError):
        strict.deploy()


def report_of(pipeline: Pipeline, *checks: tuple[str, Status]) -> VerificationReport:
    rows = [
        CheckResult(
            name=name, title=name, status=status, reason="-", seconds=1, measured={"x": 1}, thresholds=(), command="-"
        )
        for name, status in checks
    ]
    return VerificationReport(
        tool_version="0",
        plan_digest=pipeline.generate().artifact.digest(),
        optimized_digest=pipeline.optimize().artifact.digest(),
        depth=Depth.SMOKE,
        started_at="2026-01-01T00:00:00+00:00",
        route=pipeline.generate().artifact.route,
        machine=this_machine(),
        engine_runs=(),
        checks=tuple(rows),
        findings=(),
    )


def test_a_report_makes_deploy_run_and_says_only_what_it_proved(bundled: Pipeline) -> None:
    report = report_of(bundled, ("tokenizer", Status.PASSED), ("parity", Status.NOT_RUN))
    (bundled.workspace.plan_folder / "report.json").write_text(report.to_json())
    outcome = bundled.deploy()
    assert not outcome.skipped
    claim = next(row for row in outcome.artifact.evidence if row.claim.startswith("the served model is the same model"))
    assert claim.status is Status.NOT_RUN
    assert "parity" in claim.reason


def test_a_failed_replan_leaves_the_current_plan(bundled: Pipeline) -> None:
    before = bundled.workspace.plan_folder
    with pytest.raises(RuntimeError), bundled.workspace.plan_on_trial():
        Pipeline(bundled.workspace, Options(engine_args={"max-num-seqs": 3})).replan()
        raise RuntimeError
    assert bundled.workspace.plan_folder == before


def test_a_moved_workspace_mends_itself(bundled: Pipeline, tmp_path: Path, tiny_model: Path) -> None:
    shutil.move(bundled.workspace.root, tmp_path / "elsewhere")
    moved = Pipeline(open_workspace(str(tiny_model), None, tmp_path / "elsewhere"), Options.model_validate(BASE))
    for stage in ("analyze", "generate", "optimize", "deploy"):
        getattr(moved, stage)()


def test_drafts_of_a_killed_run_are_swept(bundled: Pipeline) -> None:
    folder = bundled.workspace.plan_folder
    (folder / ".bundle.abcd").mkdir()
    shutil.move(folder / "adapter", folder / "kept")
    (folder / ".adapter.old.xyz").mkdir()
    shutil.move(folder / "kept", folder / ".adapter.old.xyz" / "was")
    with bundled.workspace.lock():
        assert not (folder / ".bundle.abcd").exists()
        assert (folder / "adapter" / "adapter.json").exists()
    assert not list(folder.glob(".adapter*"))
