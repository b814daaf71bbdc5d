"""What `deploy` is asked for, and what it refuses to start from."""

from dataclasses import dataclass, field
from pathlib import Path

from autoadapter.artifacts import (
    AdapterBundle,
    Deployment,
    OptimizedModel,
    ServingPlan,
    Status,
    Target,
    VerificationReport,
)
from autoadapter.deploy.site import Site
from autoadapter.deploy.weights import sha256_of
from autoadapter.errors import UserError, VerificationFailedError, WorkspaceError


@dataclass(frozen=True)
class DeployRequest:
    """The inputs of one bundle."""

    plan: ServingPlan
    optimized: OptimizedModel
    adapter: Path
    """Folder that `generate` wrote: `vllm/config.yaml`, `vllm/env`, `tokenizer/`, `adapter.json`."""
    report: VerificationReport | None
    folder: Path
    """The bundle's final name; it appears whole or not at all."""
    targets: tuple[Target, ...] = tuple(Target)
    site: Site = field(default_factory=Site)
    require_passed: bool = True
    report_html: Path | None = None
    """The report for people, where one was written."""

    @property
    def fresh_report(self) -> VerificationReport | None:
        """The report, if it speaks of this very plan and checkpoint."""
        report = self.report
        mine = (self.plan.digest(), self.optimized.digest())
        return report if report and (report.plan_digest, report.optimized_digest) == mine else None


def check(request: DeployRequest) -> None:
    """Refuse inputs that do not belong together, and unproven ones where proof is required.

    Raises:
        WorkspaceError: checkpoint or adapter were made for another plan, or the adapter is incomplete.
        UserError: no target, or the folder holds something that is no bundle.
        VerificationFailedError: proof is required and there is none, or it failed.
    """
    if not request.targets:
        raise UserError("No deployment target was named.", hint=f"Known: {', '.join(Target)}")
    _check_folder(request.folder)
    if request.optimized.plan_digest != request.plan.digest():
        raise WorkspaceError("The optimized checkpoint was made for another plan.", hint="autoadapter optimize")
    _check_adapter(request)
    if request.require_passed:
        _check_report(request)


def _check_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file, not a folder for a bundle; it stays.", hint="Choose another folder.")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / Deployment.file_name).exists():
        raise UserError(f"{folder} holds files that are not a bundle; they stay.", hint="Choose an empty folder.")


def _check_adapter(request: DeployRequest) -> None:
    adapter = AdapterBundle.read(request.adapter / AdapterBundle.file_name)
    if adapter.plan_digest != request.plan.digest():
        raise WorkspaceError("The adapter was generated for another plan.", hint="autoadapter generate")
    rendered = {file.path: file.sha256 for file in adapter.files}
    for name in {*rendered, "vllm/config.yaml", "vllm/env"}:
        path = request.adapter / name
        if not path.is_file():
            raise WorkspaceError(f"{path} is missing.", hint="autoadapter generate --force")
        if name in rendered and sha256_of(path) != rendered[name]:
            hint = "Say it to the plan (--engine-arg NAME=VALUE), or write the file anew: autoadapter generate --force"
            raise WorkspaceError(f"{path} was changed by hand, so nothing that was tested covers it.", hint=hint)


def _check_report(request: DeployRequest) -> None:
    if request.report is None:
        raise VerificationFailedError("This plan was not tested.", hint="autoadapter test")
    report = request.fresh_report
    if report is None:
        raise VerificationFailedError("The report is about another plan or checkpoint.", hint="autoadapter test")
    if not report.passed:
        failed = [check.name for check in report.checks if check.status is Status.FAILED]
        what = f"These checks failed: {', '.join(failed)}." if failed else "No check passed."
        raise VerificationFailedError(what, hint="autoadapter test")
