"""Refuses what no plan can serve: by the verdict on the architecture, and by the blockers of these very files."""

from autoadapter.artifacts import Finding, Level, ModelProfile, Route
from autoadapter.engine.flags import flag
from autoadapter.errors import UnsupportedModelError
from autoadapter.plan.request import PlanRequest

NOT_WRITTEN = (Route.ALIAS, Route.SHIM)
ANOTHER_VERSION = "autoadapter analyze MODEL --vllm-version VERSION tries another vLLM"
NOT_PLANNED = {
    "starts_but_wrong": "would answer wrongly",
    "unprovable_here": "is unproven",
    "not_generative": "does not generate text",
}
NOT_YET = ("weights.none",)
"""Blockers that a download mends: planning before it must stay possible. They stand among the plan's findings."""
TOKENIZER = "tokenizer."
"""Blockers of the tokenizer: mended by a download too, or by the user's own `--tokenizer`."""


def require_servable(profile: ModelProfile, request: PlanRequest) -> None:
    """Raise an UnsupportedModelError when the verdict or a blocker says that there is nothing to plan."""
    _by_verdict(profile, request)
    refused = [finding for finding in profile.findings if _refuses(finding, profile, request)]
    if refused:
        codes = ", ".join(finding.code for finding in refused)
        said = " ".join(finding.message for finding in refused)
        hints = [finding.hint for finding in refused if finding.hint]
        message = f"The files of {profile.ref.name} cannot be served ({codes}): {said}"
        raise UnsupportedModelError(
            message, hint=hints[0] if hints else "Take the files anew from where they came from."
        )


def _by_verdict(profile: ModelProfile, request: PlanRequest) -> None:
    verdict, name = profile.verdict, profile.ref.name
    if verdict.route is Route.GENERATED and verdict.outcome == "unprovable_here":
        return
    if verdict.is_refused or verdict.route is Route.UNSUPPORTED:
        what = NOT_PLANNED.get(verdict.outcome, "does not start")
        message = f"{name} {what} on vLLM {verdict.vllm_version}: {verdict.reason}"
        raise UnsupportedModelError(message, hint=verdict.hint or ANOTHER_VERSION)
    if verdict.outcome == "unprovable_here" and request.hardware.kind == "cpu" and not verdict.version_unknown:
        message = f"{name} does not run on a CPU with vLLM {verdict.vllm_version}: {verdict.reason}"
        raise UnsupportedModelError(message, hint="autoadapter generate --hardware NAME plans for a GPU")
    if verdict.route in NOT_WRITTEN:
        lack = f"{name} needs model code (route {verdict.route}), which this AutoAdapter does not write"
        raise UnsupportedModelError(f"{lack}: {verdict.reason}", hint=ANOTHER_VERSION)


def _refuses(finding: Finding, profile: ModelProfile, request: PlanRequest) -> bool:
    """A blocker says that the engine will not start or will answer wrongly, so every one refuses but the listed."""
    if finding.level is not Level.BLOCKER or finding.code in NOT_YET:
        return False
    if finding.code.startswith(TOKENIZER):
        return profile.tensors.format != "none" and not _has_own_tokenizer(request)
    return True


def _has_own_tokenizer(request: PlanRequest) -> bool:
    return any(flag(name).name == "tokenizer" for name in request.engine_args)
