"""Puts the plan together: refuse what cannot be, choose, state every setting with its reason."""

from collections.abc import Iterator

import autoadapter
from autoadapter.artifacts import (
    EngineSetting,
    Finding,
    Level,
    ModelProfile,
    Route,
    ServingPlan,
)
from autoadapter.engine.flags import check
from autoadapter.errors import AutoadapterError, UnsupportedModelError
from autoadapter.plan.choose import choose
from autoadapter.plan.environment import environment
from autoadapter.plan.layout import Candidate
from autoadapter.plan.request import PlanRequest, UserFlags, require_a_possible_request, user_flags
from autoadapter.plan.settings import engine_settings, serving_dtype, stored_dtype
from autoadapter.plan.weights import is_estimated

WRITTEN_CODE = (Route.ALIAS, Route.SHIM, Route.GENERATED)


def make_plan(profile: ModelProfile, request: PlanRequest) -> ServingPlan:
    """Decide how to serve a model.

    Args:
        profile: what `analyze` found.
        request: strategy, hardware, workload and what the user fixed.

    Returns:
        A plan whose every setting says why and who said it, and which lists what was not taken.

    Raises:
        UnsupportedModelError: the profile's verdict is that the model does not start.
        UserError: the user fixed something that is unknown or illegal.
        DoesNotFitError: nothing legal fits the hardware.
    """
    _require_servable(profile)
    user = user_flags(request)
    require_a_possible_request(profile, request, user)
    choice = choose(profile, request, user)
    chosen = choice.candidate
    settings = engine_settings(profile, request, user, chosen)
    _require_known(settings, request.vllm_version)
    name = next(setting.value for setting in settings if setting.flag == "served-model-name")
    return ServingPlan(
        tool_version=autoadapter.__version__,
        model=profile.ref,
        profile_digest=profile.digest(),
        route=profile.verdict.route,
        strategy=request.strategy,
        hardware=request.hardware,
        workload=request.workload,
        vllm_version=request.vllm_version,
        served_name=name[0] if isinstance(name, tuple) else str(name),
        scheme=chosen.scheme,
        parallelism=chosen.layout.as_artifact(),
        settings=settings,
        env=environment(chosen),
        memory=chosen.memory,
        rejected=choice.rejected,
        findings=tuple(_findings(profile, request, user, chosen)),
    )


def _require_servable(profile: ModelProfile) -> None:
    verdict = profile.verdict
    if verdict.outcome == "will_not_start" or verdict.route is Route.UNSUPPORTED:
        raise UnsupportedModelError(
            f"{profile.ref.name} does not start on vLLM {verdict.vllm_version}: {verdict.reason}",
            hint="autoadapter analyze MODEL --vllm-version VERSION tries another vLLM",
        )
    if verdict.route in WRITTEN_CODE:
        raise UnsupportedModelError(
            f"{profile.ref.name} needs model code (route {verdict.route}), which this AutoAdapter does not write: "
            f"{verdict.reason}",
            hint="autoadapter analyze MODEL --vllm-version VERSION tries another vLLM",
        )


def _require_known(settings: tuple[EngineSetting, ...], version: str) -> None:
    problems = check(settings, version)
    if problems:
        raise AutoadapterError(
            f"The plan would hold what vLLM {version} refuses: {'; '.join(problems)}.",
            hint="Plan for the vLLM that you run: --vllm-version VERSION",
        )


def _findings(profile: ModelProfile, request: PlanRequest, user: UserFlags, chosen: Candidate) -> Iterator[Finding]:
    def finding(code: str, level: Level, message: str, source: str, hint: str | None = None) -> Finding:
        return Finding(code=f"plan.{code}", level=level, message=message, hint=hint, source=source)

    layout, memory, work = chosen.layout, chosen.memory, request.workload
    if profile.verdict.outcome == "starts_but_wrong":
        yield finding("wrong-answers", Level.BLOCKER, profile.verdict.reason, "profile: verdict")
    if is_estimated(profile):
        text = "No tensor headers were found; the size of the weights is an estimate from the configuration."
        yield finding("weights-estimated", Level.WARNING, text, "config.json", "Plan again beside the real weights")
    if chosen.max_model_len < chosen.wanted_len:
        text = f"The context is {chosen.max_model_len} tokens, the model could do {profile.max_model_len}."
        yield finding("short-context", Level.WARNING, text, "memory plan", "More memory or --strategy min_mem")
    need = work.concurrency * (work.input_len + work.output_len)
    if chosen.total_tokens < need:
        text = f"The KV cache holds {chosen.total_tokens} tokens, the workload wants {need} at once: requests wait."
        yield finding("few-requests", Level.WARNING, text, "memory plan")
    if layout.devices < request.hardware.count:
        text = f"{layout.text} uses {layout.devices} of {request.hardware.count} devices."
        yield finding("idle-devices", Level.INFO, text, "plan/layout.py")
    if serving_dtype(profile, request)[0] != stored_dtype(profile):
        text = f"Served as float16, since {request.hardware.text} has no bfloat16; large activations may overflow."
        yield finding("float16", Level.WARNING, text, request.hardware.source)
    if user.values.get("trust-remote-code") is True:
        text = "The server runs Python code that comes with the checkpoint."
        yield finding("trust-remote-code", Level.WARNING, text, "--engine-arg trust-remote-code")
    if memory.overhead_bytes + memory.weight_bytes > memory.device_bytes * 0.8 and request.hardware.kind == "cuda":
        text = "Weights and overhead take more than 80 % of the device; the overhead is an estimate."
        yield finding("tight", Level.WARNING, text, "memory plan", "autoadapter test measures it")
