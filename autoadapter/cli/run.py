"""`autoadapter run`: all five stages, one display, resumable."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from autoadapter.cli.common import chosen_route, pipeline, planning, prefixed, relative
from autoadapter.cli.options import (
    CaseOpt,
    ConcurrencyOpt,
    DepthOpt,
    EngineArgOpt,
    EngineOpt,
    FollowLinksOpt,
    ForceOpt,
    HardwareOpt,
    InputLenOpt,
    JsonOpt,
    MaxLenOpt,
    ModelArg,
    OutputLenOpt,
    RecipesOpt,
    RemoteCodeOpt,
    RevisionOpt,
    RouteOpt,
    SchemeOpt,
    ServedNameOpt,
    StrategyOpt,
    TargetOpt,
    VllmOpt,
    WorkspaceOpt,
)
from autoadapter.cli.output import Out
from autoadapter.units import human_bytes, human_count

if TYPE_CHECKING:
    from autoadapter.pipeline import Outcome, Pipeline
    from autoadapter.workspace import Workspace


STATUSES = ("passed", "failed", "not_run")


def run(
    model: ModelArg,
    workspace: WorkspaceOpt = None,
    revision: RevisionOpt = None,
    strategy: StrategyOpt = "balanced",
    hardware: HardwareOpt = "cpu",
    scheme: SchemeOpt = None,
    max_model_len: MaxLenOpt = None,
    served_name: ServedNameOpt = None,
    input_len: InputLenOpt = None,
    output_len: OutputLenOpt = None,
    concurrency: ConcurrencyOpt = None,
    engine_arg: EngineArgOpt = None,
    recipes: RecipesOpt = None,
    depth: DepthOpt = "smoke",
    case: CaseOpt = None,
    target: TargetOpt = None,
    engine_python: EngineOpt = None,
    vllm_version: VllmOpt = None,
    trust_remote_code: RemoteCodeOpt = False,
    route: RouteOpt = None,
    follow_symlinks: FollowLinksOpt = False,
    force: ForceOpt = False,
    json: JsonOpt = False,
) -> None:
    """All five stages. Finished stages are skipped while their inputs are unchanged, so a stopped run resumes.

    For example:

      autoadapter run ./SmolLM2-135M-Instruct

      autoadapter run Qwen/Qwen3-8B --strategy max_perf --hardware h200
    """
    from autoadapter.artifacts import Depth, Target
    from autoadapter.options import choose
    from autoadapter.pipeline import open_workspace

    out = Out(as_json=json)
    settings = planning(
        strategy=strategy,
        hardware=hardware,
        scheme=scheme,
        max_model_len=max_model_len,
        served_name=served_name,
        input_len=input_len,
        output_len=output_len,
        concurrency=concurrency,
        engine_args=engine_arg,
        recipes=recipes,
        vllm_version=vllm_version,
    )
    settings["depth"] = choose(Depth, depth, "depth")
    settings["test_cases"] = tuple(case or ())
    settings["targets"] = tuple(choose(Target, name, "target") for name in target) if target else None
    settings["route"] = chosen_route(route)
    settings |= {"engine_python": engine_python, "trust_remote_code": trust_remote_code, "force": force}
    opened = open_workspace(model, revision, workspace, follow_symlinks=follow_symlinks)
    began = time.monotonic()
    with pipeline(opened, out, "run", **settings) as stages:
        outcomes = _all_five(stages, out)
    _summarize(out, opened, outcomes, time.monotonic() - began)


def _all_five(stages: "Pipeline", out: Out) -> "dict[str, Outcome[Any]]":
    from autoadapter.cli.test import require_passed
    from autoadapter.pipeline import STAGES
    from autoadapter.rendering.fit import refusal

    outcomes: dict[str, Outcome[Any]] = {}
    for number, stage in enumerate(STAGES, 1):
        at_work = replace(stages, progress=prefixed(stages.progress, f"{stage} ({number} of {len(STAGES)})"))
        outcome = outcomes[stage] = getattr(at_work, stage)()
        took = "unchanged" if outcome.skipped else f"{outcome.seconds:.1f} s"
        out.talk(f"{'=' if outcome.skipped else '✓'} {stage}: {took}")
        if stage == "analyze" and outcome.artifact.verdict.is_refused:
            raise refusal(outcome.artifact)
        if stage == "test":
            require_passed(outcome.artifact, relative(outcome.path.with_suffix(".html")))
    return outcomes


def _summarize(out: Out, opened: "Workspace", outcomes: "dict[str, Outcome[Any]]", seconds: float) -> None:
    report = outcomes["test"].path.with_suffix(".html")
    bundle = outcomes["deploy"].path.parent
    if out.as_json:
        rows = {
            stage: {
                "skipped": row.skipped,
                "seconds": row.seconds,
                "file": str(row.path),
                "result": _result(stage, row.artifact),
            }
            for stage, row in outcomes.items()
        }
        out.document(
            {
                "workspace": str(opened.root),
                "seconds": seconds,
                "stages": rows,
                "report": str(report),
                "bundle": str(bundle),
            }
        )
        return
    out.table(
        ("stage", "took", "result"),
        [
            (stage, "unchanged" if row.skipped else f"{row.seconds:.1f} s", _result(stage, row.artifact))
            for stage, row in outcomes.items()
        ],
    )
    out.facts([("bundle", relative(bundle)), ("report", relative(report)), ("total", f"{seconds:.0f} s")])
    out.next_step(f"autoadapter deploy --up -w {relative(opened.root)}")


def _result(stage: str, artifact: Any) -> str:
    return _RESULTS[stage](artifact)


def _analyzed(artifact: Any) -> str:
    size = human_count(artifact.tensors.parameters)
    return f"{artifact.architecture}, {size} parameters, route {artifact.verdict.route}"


def _optimized(artifact: Any) -> str:
    quality = artifact.quality
    size = f"{human_bytes(artifact.bytes_before)} → {human_bytes(artifact.bytes_after)}"
    return f"{size}, perplexity {quality.perplexity_before:.2f} → {quality.perplexity_after:.2f}" if quality else size


def _tested(artifact: Any) -> str:
    names = {status: [check.name for check in artifact.checks if check.status == status] for status in STATUSES}
    others = [f"{status}: {', '.join(names[status])}" for status in STATUSES[1:] if names[status]]
    return "; ".join([f"{len(names['passed'])} passed", *others])


_RESULTS: dict[str, Callable[[Any], str]] = {
    "analyze": _analyzed,
    "generate": lambda plan: f"{plan.scheme.name}, {len(plan.settings)} settings, {plan.memory.kv_tokens:,} KV tokens",
    "optimize": _optimized,
    "test": _tested,
    "deploy": lambda deployment: f"{len(deployment.files)} files for {', '.join(deployment.targets)}",
}
