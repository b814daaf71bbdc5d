"""The report for people: everything that `report.html` shows, already in words."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pydantic import JsonValue

from autoadapter.artifacts import CheckResult, Finding, ServingPlan, Status, Threshold, VerificationReport
from autoadapter.rendering.model_section import ModelSection
from autoadapter.verify.charts import charts_of
from autoadapter.verify.judge import holds
from autoadapter.verify.plots import Chart, short

GIB = 2**30
PROOF = ("parity", "quality")
"""Checks without which nothing says that the right model is served."""
SIGNS = {Status.PASSED: "✓", Status.FAILED: "✗", Status.NOT_RUN: "–"}
WORDS = {Status.PASSED: "passed", Status.FAILED: "failed", Status.NOT_RUN: "not run"}
DIRECTIONS = {"<=": "≤", ">=": "≥", "==": "="}


@dataclass(frozen=True)
class LimitRow:
    """A measured value beside its limit."""

    name: str
    value: str
    limit: str
    kept: bool
    source: str


@dataclass(frozen=True)
class CheckView:
    """One check."""

    name: str
    title: str
    status: str
    word: str
    sign: str
    reason: str
    seconds: str
    command: str
    limits: tuple[LimitRow, ...]
    facts: tuple[tuple[str, str], ...]
    answers: tuple[tuple[str, str], ...]
    charts: tuple[Chart, ...]


@dataclass(frozen=True)
class ReportView:
    """`report.html`. The template escapes every value: model names and answers are hostile."""

    template: ClassVar[str] = "report/report.html.j2"

    model: str
    verdict: str
    word: str
    sentence: str
    where: str
    summary: tuple[tuple[str, str], ...]
    checks: tuple[CheckView, ...]
    runs: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    findings: tuple[Finding, ...]
    section: ModelSection | None = None
    """What `analyze` found: layers, memory, costs."""

    @classmethod
    def of(cls, report: VerificationReport, plan: ServingPlan, section: ModelSection | None = None) -> Self:
        """The view of a report, with the plan's words for model and layout."""
        charts = charts_of(report)
        return cls(
            model=plan.model.name,
            verdict="passed" if report.passed else "failed",
            word=headline(report),
            sentence=sentence(report),
            where=where(report, plan),
            summary=summary(report, plan),
            checks=tuple(check_view(check, charts[check.name]) for check in report.checks),
            runs=tuple((f"Engine: {run.role}", run_facts(run.model_dump())) for run in report.engine_runs),
            findings=report.findings,
            section=section,
        )


def headline(report: VerificationReport) -> str:
    """The verdict in a few words; a pass names what the proof lacks."""
    if not report.passed:
        return f"Not passed at depth {report.depth}"
    ran = {check.name for check in report.checks if check.status is not Status.NOT_RUN}
    lacking = " and ".join(name for name in PROOF if name not in ran)
    return f"Passed at depth {report.depth}" + (f", {lacking} not run" if lacking else "")


def sentence(report: VerificationReport) -> str:
    """The verdict in one sentence."""
    total = len(report.checks)
    by_status = {status: [c.title.partition(":")[0] for c in report.checks if c.status is status] for status in Status}
    parts = [f"{len(by_status[Status.PASSED])} of {total} checks passed"]
    for status in (Status.FAILED, Status.NOT_RUN):
        if titles := by_status[status]:
            parts.append(f"{len(titles)} {WORDS[status]} ({', '.join(titles)})")
    return ", ".join(parts) + "."


def where(report: VerificationReport, plan: ServingPlan) -> str:
    """Engine, device and day, beside the verdict."""
    device = ", ".join(report.machine.gpus) or report.machine.cpu
    version = next((run.vllm_version for run in report.engine_runs), plan.vllm_version)
    day, _, hour = report.started_at.partition("T")
    return f"{plan.scheme.name} on vLLM {version}, {device}, {day} {hour[:5]} UTC"


def summary(report: VerificationReport, plan: ServingPlan) -> tuple[tuple[str, str], ...]:
    """What was tested, where and when."""
    machine = report.machine
    gpus = ", ".join(machine.gpus) or "none"
    return (
        ("Model", plan.model.location + (f" @ {plan.model.commit}" if plan.model.commit else "")),
        ("Route", report.route),
        ("Scheme", plan.scheme.name),
        ("Planned for", f"{plan.hardware.text}, strategy {plan.strategy}"),
        ("vLLM", next((run.vllm_version for run in report.engine_runs), f"{plan.vllm_version} (planned, not started)")),
        ("Depth", report.depth),
        ("Started", report.started_at),
        ("Machine", f"{machine.cpu}, {machine.cores} cores, {machine.memory_bytes / GIB:.0f} GiB; GPUs: {gpus}"),
        ("Platform", f"{machine.platform}, Python {machine.python}"),
        ("Plan", report.plan_digest),
        ("Checkpoint", report.optimized_digest),
        ("AutoAdapter", report.tool_version),
    )


def check_view(check: CheckResult, charts: tuple[Chart, ...]) -> CheckView:
    """One check in words."""
    limited = {threshold.name for threshold in check.thresholds}
    answers = check.measured.get("answers")
    pairs = answers if isinstance(answers, list) else []
    return CheckView(
        name=check.name,
        title=check.title,
        status=check.status,
        word=WORDS[check.status],
        sign=SIGNS[check.status],
        reason=check.reason,
        seconds=f"{check.seconds:.1f} s",
        command=check.command,
        limits=tuple(limit_row(threshold, check) for threshold in check.thresholds),
        facts=tuple(
            (key, text) for key, value in check.measured.items() if key not in limited and (text := fact(value))
        ),
        answers=tuple((str(pair["prompt"]), str(pair["answer"])) for pair in pairs if isinstance(pair, dict)),
        charts=charts,
    )


def limit_row(threshold: Threshold, check: CheckResult) -> LimitRow:
    """A measured value beside its limit, in words."""
    value = check.measured.get(threshold.name)
    shown = short(value) if isinstance(value, int | float) else "not measured"
    limit = f"{DIRECTIONS[threshold.direction]} {short(threshold.limit)}"
    return LimitRow(threshold.name, shown, limit, holds(threshold, check.measured), threshold.source)


def fact(value: JsonValue) -> str | None:
    """A measured value as text; None for what is drawn or listed elsewhere."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return short(value)
    if isinstance(value, list) and len(value) <= 16 and all(isinstance(item, int | str) for item in value):
        return ", ".join(str(item) for item in value)
    return value if isinstance(value, str) else None


def run_facts(run: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """An engine start, field by field."""
    named = {
        "Checkpoint": run["model_path"],
        "Cold start": f"{run['cold_start_seconds']:.1f} s",
        "KV cache": f"{run['kv_cache_tokens']:,} tokens" if run["kv_cache_tokens"] else "not in the log",
        "Log": run["log"],
        "Command": run["command"],
    }
    return tuple(named.items())
