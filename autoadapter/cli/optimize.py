"""`autoadapter optimize`."""

from typing import TYPE_CHECKING

from autoadapter.cli.common import pipeline, relative, say_if_skipped
from autoadapter.cli.options import (
    CalibrationOpt,
    EngineOpt,
    ForceOpt,
    JsonOpt,
    RemoteCodeOpt,
    SamplesOpt,
    SchemeOpt,
    WorkspaceOpt,
)
from autoadapter.cli.output import Out
from autoadapter.units import human_bytes

if TYPE_CHECKING:
    from autoadapter.artifacts import OptimizedModel


def optimize(
    workspace: WorkspaceOpt = None,
    scheme: SchemeOpt = None,
    calibration_data: CalibrationOpt = None,
    samples: SamplesOpt = 64,
    engine_python: EngineOpt = None,
    trust_remote_code: RemoteCodeOpt = False,
    force: ForceOpt = False,
    json: JsonOpt = False,
) -> None:
    """Convert and quantize as the plan says; measure perplexity before and after.

    `--scheme` makes another plan beside the current one and optimizes that.

    For example:

      autoadapter optimize

      autoadapter optimize --scheme w4a16_gptq --calibration-data prompts.txt
    """
    from autoadapter.workspace import current_workspace

    out = Out(as_json=json)
    opened = current_workspace(workspace)
    settings = {
        "calibration": calibration_data,
        "samples": samples,
        "engine_python": engine_python,
        "trust_remote_code": trust_remote_code,
        "force": force,
    }
    with pipeline(opened, out, "optimize", scheme=scheme, **settings) as stages, opened.plan_on_trial():
        if scheme is not None:
            stages.replan()
        outcome = stages.optimize()
    say_if_skipped(out, outcome)
    if json:
        out.document(outcome.artifact.model_dump(mode="json"))
    else:
        show_optimized(out, outcome.artifact)
        out.line(f"Written: {relative(outcome.path)}", style="dim")
    out.next_step(f"autoadapter test -w {relative(opened.root)}")


def show_optimized(out: Out, optimized: "OptimizedModel") -> None:
    """What was made and what it cost."""
    before, after = optimized.bytes_before, optimized.bytes_after
    out.heading(f"{optimized.scheme.name}: {human_bytes(before)} → {human_bytes(after)} ({after / before:.0%})")
    out.table(
        ("step", "tool", "seconds", "peak memory"),
        [(step.name, step.tool, f"{step.seconds:.1f}", human_bytes(step.peak_rss_bytes)) for step in optimized.steps],
    )
    quality = optimized.quality
    if quality:
        out.facts(
            [
                ("perplexity", f"{quality.perplexity_before:.3f} → {quality.perplexity_after:.3f}"),
                ("held-out text", f"{quality.text}, {quality.tokens} tokens"),
                ("loss", f"{quality.delta_nll:+.4f} ± {quality.delta_nll_se:.4f} nats a token"),
            ]
        )
    out.findings(optimized.findings)
