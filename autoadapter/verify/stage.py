"""The `test` stage: run the checks, write the report."""

import shlex
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path

from autoadapter import __version__
from autoadapter.artifacts import CheckResult, Finding, Level, Status, VerificationReport
from autoadapter.errors import AutoadapterError, EngineError, MissingPartError, UserError, WorkerError
from autoadapter.hardware.machine import gpu_names, this_machine
from autoadapter.progress import Progress, silent
from autoadapter.rendering import render, write_atomically
from autoadapter.rendering.model_section import ModelSection
from autoadapter.verify.checks import CHECKS
from autoadapter.verify.context import Check, CheckContext
from autoadapter.verify.engines import Engines, Role
from autoadapter.verify.judge import failed, not_run
from autoadapter.verify.report_view import ReportView
from autoadapter.verify.request import VerifyRequest

GIB = 2**30


def verify(request: VerifyRequest, progress: Progress = silent) -> VerificationReport:
    """Prove the plan on this machine's vLLM, and write `report.json` and `report.html` into `request.folder`.

    A check that fails does not raise: the caller reads `report.passed`.

    Raises:
        UserError: `request.only` names a check that does not exist.
        WorkspaceError: the rendered adapter is incomplete.
        StorageError: the report could not be written.
    """
    started = datetime.now(UTC)
    chosen = [check for check in chosen_checks(request.only) if request.only or applies(check, request)]
    request.logs.mkdir(parents=True, exist_ok=True)
    engines = Engines(request, progress)
    context = CheckContext(request, engines, progress)
    try:
        results = tuple(run_check(check, context) for check in chosen)
    finally:
        engines.close()
    report = VerificationReport(
        tool_version=__version__,
        plan_digest=request.plan.digest(),
        optimized_digest=request.optimized.digest(),
        depth=request.depth,
        started_at=started.isoformat(timespec="seconds"),
        route=request.plan.route,
        machine=this_machine(),
        engine_runs=tuple(engines.runs),
        checks=results,
        findings=findings(request, results),
    )
    write_report(report, request)
    return report


def chosen_checks(only: tuple[str, ...]) -> tuple[Check, ...]:
    """The checks to run, in their own order whatever the order of the names.

    Raises:
        UserError: a name is not a check's.
    """
    names = [check.name for check in CHECKS]
    unknown = sorted(set(only) - set(names))
    if unknown:
        raise UserError(f"No check is called {', '.join(unknown)}.", hint=f"Checks: {', '.join(names)}")
    return tuple(check for check in CHECKS if not only or check.name in only)


def applies(check: Check, request: VerifyRequest) -> bool:
    """Whether a check belongs to the plan's route: most belong to all."""
    return getattr(check, "route", request.plan.route) == request.plan.route


def run_check(check: Check, context: CheckContext) -> CheckResult:
    """One check's result, its time and the line that repeats it. Only a broken workspace raises."""
    began = time.monotonic()
    context.progress(check.title)
    absent = absent_need(check, context.request)
    try:
        result = not_run(check, absent) if absent else check.run(context)
    except EngineError as error:
        result = failed(check, str(context.engines.death() or error))
    except MissingPartError as error:
        result = not_run(check, f"{error} {error.hint}")
    except WorkerError as error:
        result = failed(check, f"transformers gave no reference, so nothing is proven. {error!s}")
    except AutoadapterError:
        raise
    except Exception as error:
        write_atomically(context.request.logs / f"{check.name}-error.log", traceback.format_exc())
        result = failed(check, f"the check itself broke: {type(error).__name__}: {error}")
    seconds = round(time.monotonic() - began, 2)
    return result.model_copy(update={"seconds": seconds, "command": repeat_command(check, context.request)})


def absent_need(check: Check, request: VerifyRequest) -> str | None:
    """Why this machine cannot give what the check needs, None when it can."""
    planned, found = request.plan.hardware, request.engine.platform
    if planned.kind != found:
        return f"the plan is for {planned.text} and this vLLM computes on {found}"
    if found == "cuda" and len(gpu_names()) < planned.count:
        return f"the plan is for {planned.text} and this machine has {len(gpu_names())} GPUs"
    folders = {Role.REFERENCE: request.optimized.reference_path, Role.CANDIDATE: request.optimized.model_path}
    missing = [f"the {role} checkpoint {folders[role]}" for role in check.needs if not Path(folders[role]).is_dir()]
    if missing:
        return f"{missing[0]} is not there"
    return reference_too_big(request) if Role.REFERENCE in check.needs else None


def reference_too_big(request: VerifyRequest) -> str | None:
    """Why the unquantized checkpoint cannot be served on the plan's devices, None when it can or is served anyway."""
    layout, device = request.plan.parallelism, request.plan.memory.device_bytes
    share = request.profile.memory.served_weight_bytes // (layout.tensor_parallel_size * layout.pipeline_parallel_size)
    if request.unchanged or share < device:
        return None
    return f"the unquantized weights take {share / GIB:.0f} GiB of a device that has {device / GIB:.0f} GiB"


def repeat_command(check: Check, request: VerifyRequest) -> str:
    """The line that repeats one check."""
    where = str(request.workspace or request.folder)
    return shlex.join(["autoadapter", "test", "-w", where, "--depth", request.depth, "--only", check.name])


def findings(request: VerifyRequest, results: tuple[CheckResult, ...]) -> tuple[Finding, ...]:
    """What the report should say in words: gaps in the evidence."""
    gaps = [
        Finding(
            code=f"verify.{result.name}-not-run",
            level=Level.WARNING,
            message=f"{result.title}: not run, {result.reason.rstrip('.')}.",
            hint=None,
            source="verify/stage.py",
        )
        for result in results
        if result.status is Status.NOT_RUN and not (result.name == "user_prompts" and not request.test_cases)
    ]
    return tuple(gaps)


def write_report(report: VerificationReport, request: VerifyRequest) -> None:
    """Both files, each whole or not at all."""
    section = ModelSection.of(request.profile, [request.sizing] if request.sizing else [])
    write_atomically(request.folder / "report.html", render(ReportView.of(report, request.plan, section)))
    write_atomically(request.folder / VerificationReport.file_name, report.to_json())
