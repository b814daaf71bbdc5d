"""`autoadapter test`."""

from typing import TYPE_CHECKING

from autoadapter.cli.common import pipeline, relative, say_if_skipped
from autoadapter.cli.options import (
    CaseOpt,
    DepthOpt,
    EngineOpt,
    ForceOpt,
    JsonOpt,
    OnlyOpt,
    RemoteCodeOpt,
    WorkspaceOpt,
)
from autoadapter.cli.output import Out

if TYPE_CHECKING:
    from autoadapter.artifacts import VerificationReport


def test(
    workspace: WorkspaceOpt = None,
    depth: DepthOpt = "smoke",
    only: OnlyOpt = None,
    case: CaseOpt = None,
    engine_python: EngineOpt = None,
    trust_remote_code: RemoteCodeOpt = False,
    force: ForceOpt = False,
    json: JsonOpt = False,
) -> None:
    """Prove it on a real engine: tokens, log-probabilities, quality, speed, load.

    For example:

      autoadapter test

      autoadapter test --depth standard --case "The capital of France is"

      autoadapter test --only parity --only tokenizer
    """
    from autoadapter.artifacts import Depth
    from autoadapter.options import choose
    from autoadapter.workspace import current_workspace

    out = Out(as_json=json)
    settings = {"depth": choose(Depth, depth, "depth"), "only": tuple(only or ()), "test_cases": tuple(case or ())}
    opened = current_workspace(workspace)
    with pipeline(
        opened, out, "test", engine_python=engine_python, trust_remote_code=trust_remote_code, force=force, **settings
    ) as stages:
        outcome = stages.test()
    say_if_skipped(out, outcome)
    if json:
        out.document(outcome.artifact.model_dump(mode="json"))
    else:
        show_report(out, outcome.artifact)
        out.line(f"Written: {relative(outcome.path)} and {relative(outcome.path.with_suffix('.html'))}", style="dim")
    require_passed(outcome.artifact, relative(outcome.path.with_suffix(".html")))
    out.next_step(f"autoadapter deploy -w {relative(opened.root)}")


def show_report(out: Out, report: "VerificationReport") -> None:
    """One line a check."""
    out.heading(f"{'Passed' if report.passed else 'NOT PASSED'} at depth {report.depth}, route {report.route}")
    rows = [(check.name, check.status.value, f"{check.seconds:.0f} s", check.reason) for check in report.checks]
    out.table(("check", "status", "took", "what was seen"), rows, status_column=1)
    out.findings(report.findings)


def require_passed(report: "VerificationReport", where: str) -> None:
    """Exit code 3 when the evidence does not hold.

    Raises:
        VerificationFailedError: a check failed, or nothing was proved.
    """
    from autoadapter.errors import VerificationFailedError

    if not report.passed:
        failed = [check.name for check in report.checks if check.status == "failed"]
        what = f"{', '.join(failed)} failed" if failed else "no check passed"
        raise VerificationFailedError(f"The verification did not pass: {what}.", hint=f"Open {where}")
