"""`deploy`: plan, checkpoint and evidence → a bundle that an operator can run, check and take back."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from autoadapter import __version__
from autoadapter.artifacts import (
    Deployment,
    Finding,
    Level,
    Status,
    Target,
    Validation,
    VerificationReport,
)
from autoadapter.deploy import checksums, evidence, rollback, validators, weights
from autoadapter.deploy.facts import PLUGIN, Facts
from autoadapter.deploy.request import DeployRequest, check
from autoadapter.deploy.target import DeployTarget
from autoadapter.deploy.targets import TARGETS
from autoadapter.deploy.targets.kubernetes import CONFIG
from autoadapter.deploy.views import RunbookView, SmokeView
from autoadapter.progress import Progress, silent
from autoadapter.rendering import render, replace_folder, write_atomically, write_tree

COPIED_FOLDERS = ("vllm", "tokenizer", PLUGIN)
"""What the bundle takes over from the adapter, byte for byte."""
_CACHES = shutil.ignore_patterns("__pycache__", ".*")


def deploy(request: DeployRequest, progress: Progress = silent) -> Deployment:
    """Write the bundle, let real validators read it, and seal it with checksums.

    The same inputs give the same bytes: nothing in a bundle says when or where it was written.

    Raises:
        WorkspaceError: the inputs do not belong together, or are incomplete.
        BrokenCheckpointError: the weights are not what `optimize` recorded.
        UserError: no target, or the folder holds something else.
        VerificationFailedError: proof is required, and there is none or it failed.
        StorageError: the disk is full or the folder may not be written.
    """
    check(request)
    facts = gather_facts(request)
    chosen = tuple(plugin for plugin in TARGETS if plugin.target in request.targets)
    with replace_folder(request.folder) as draft:
        progress("writing the bundle", 0.1)
        _write(draft, request, facts, chosen)
        progress("validating the bundle", 0.4)
        validations = _validate(draft, facts, chosen)
        manifest = _manifest(draft, request, facts, chosen, validations)
        write_atomically(draft / Deployment.file_name, manifest.to_json())
        checksums.write_sums(draft)
        progress("the bundle is complete", 1.0)
    return manifest


def gather_facts(request: DeployRequest) -> Facts:
    """What the targets need to know; refuses weights that are not in place."""
    reference = weights.reference(request.optimized)
    weights.require_present(reference)
    return Facts(
        plan=request.plan,
        optimized=request.optimized,
        report=request.fresh_report,
        site=request.site,
        weights=reference,
        can_chat=_can_chat(request),
    )


def _can_chat(request: DeployRequest) -> bool:
    """A template of the model or of the plan, or a tokenizer mode that formats messages itself."""
    planned = any(request.plan.setting(flag) is not None for flag in ("chat-template", "tokenizer-mode"))
    return planned or weights.has_chat_template(Path(request.optimized.model_path))


def _write(draft: Path, request: DeployRequest, facts: Facts, chosen: Sequence[DeployTarget]) -> None:
    for folder in COPIED_FOLDERS:
        if (request.adapter / folder).is_dir():
            shutil.copytree(request.adapter / folder, draft / folder, ignore=_CACHES, copy_function=shutil.copyfile)
    files = _common(request, facts, chosen)
    for plugin in chosen:
        files.update(plugin.files(facts))
    if Target.KUBERNETES in {plugin.target for plugin in chosen}:
        files[CONFIG] = (draft / "vllm/config.yaml").read_text(encoding="utf-8")
    write_tree(draft, files)
    if request.report_html and request.report_html.is_file() and request.fresh_report:
        (draft / "reports").mkdir(exist_ok=True)
        shutil.copyfile(request.report_html, draft / "reports" / "report.html")


def _common(request: DeployRequest, facts: Facts, chosen: Sequence[DeployTarget]) -> dict[str, str]:
    commands = {str(plugin.target): plugin.commands(facts) for plugin in chosen}
    back = {str(plugin.target): plugin.rollback(facts) for plugin in chosen}
    files = {
        "smoke.py": render(SmokeView(facts)),
        "RUNBOOK.md": render(RunbookView(facts, commands, back)),
        "weights.ref.json": facts.weights.model_dump_json(indent=2) + "\n",
        "weights.sha256": weights.checksum_file(facts.weights),
        "site.json": facts.site.model_dump_json(indent=2) + "\n",
        "rollback.json": json.dumps(rollback.record(request, back), indent=2) + "\n",
    }
    if facts.report is not None:
        files[f"reports/{VerificationReport.file_name}"] = facts.report.to_json()
    return files


def _validate(draft: Path, facts: Facts, chosen: Sequence[DeployTarget]) -> tuple[Validation, ...]:
    common = (
        validators.check_engine_config(draft, facts.plan),
        validators.check_env(draft, facts.plan),
        *validators.YAMLLINT.check(draft, "vllm/config.yaml"),
        validators.check_python(draft, "smoke.py"),
    )
    rows = [*common, *(row for plugin in chosen for row in plugin.validate(draft))]
    return tuple({(row.file, row.tool): row for row in rows}.values())


def _manifest(
    draft: Path,
    request: DeployRequest,
    facts: Facts,
    chosen: Sequence[DeployTarget],
    validations: tuple[Validation, ...],
) -> Deployment:
    proofs = (
        *evidence.gather(request, facts, validations),
        *(plugin.evidence(facts) for plugin in chosen),
    )
    plan = request.plan
    return Deployment(
        tool_version=__version__,
        model=plan.model.name,
        revision=plan.model.commit or plan.model.revision,
        plan_digest=plan.digest(),
        report_digest=facts.report.digest() if facts.report else None,
        vllm_version=plan.vllm_version,
        targets=tuple(plugin.target for plugin in chosen),
        weights=facts.weights,
        files=checksums.files_of(draft),
        commands=_flat({plugin.target: plugin.commands(facts) for plugin in chosen}),
        undo=tuple(line for plugin in chosen for line in plugin.undo(facts)),
        evidence=proofs,
        validations=validations,
        findings=_findings(request, facts, chosen, validations),
    )


def _flat(commands: dict[Target, dict[str, str]]) -> dict[str, str]:
    """All lines of all targets, named `local.up`, `kubernetes.status`, and so on."""
    return {f"{target}.{verb}": line for target, lines in commands.items() for verb, line in lines.items()}


def _findings(
    request: DeployRequest, facts: Facts, chosen: Sequence[DeployTarget], validations: Sequence[Validation]
) -> tuple[Finding, ...]:
    rows = [
        *(_rejected(row) for row in validations if row.status is Status.FAILED),
        *_unproven(request),
        *_plugin_missing(request, facts),
        *(row for plugin in chosen for row in plugin.findings(facts)),
    ]
    return tuple({(row.code, row.source): row for row in rows}.values())


def _rejected(row: Validation) -> Finding:
    return Finding(
        code="deploy.invalid-file",
        level=Level.BLOCKER,
        message=f"{row.tool} rejects {row.file}: {row.reason}",
        source=f"{row.file}:{row.tool}",
    )


def _unproven(request: DeployRequest) -> tuple[Finding, ...]:
    report = request.fresh_report
    if report is not None and report.passed:
        return ()
    failed = report is not None and any(check.status is Status.FAILED for check in report.checks)
    return (
        Finding(
            code="deploy.unproven",
            level=Level.BLOCKER if failed else Level.WARNING,
            message="A check of this plan failed." if failed else "Nothing proves that this plan answers correctly.",
            hint="autoadapter test",
            source=VerificationReport.file_name,
        ),
    )


def _plugin_missing(request: DeployRequest, facts: Facts) -> tuple[Finding, ...]:
    if not facts.has_plugin or (request.adapter / PLUGIN).is_dir():
        return ()
    return (
        Finding(
            code="deploy.plugin-missing",
            level=Level.BLOCKER,
            message=f"The route {facts.plan.route} needs a vLLM plugin, and the adapter carries none.",
            hint="autoadapter generate --force",
            source="adapter/plugin",
        ),
    )
