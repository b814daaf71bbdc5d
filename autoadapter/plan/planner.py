"""Puts the plan together: refuse what cannot be, choose, state every setting with its reason."""

import autoadapter
from autoadapter.artifacts import EngineSetting, ModelProfile, ServingPlan
from autoadapter.engine.flags import check
from autoadapter.errors import AutoadapterError
from autoadapter.plan.choose import choose, find_choice
from autoadapter.plan.environment import environment
from autoadapter.plan.findings import plan_findings
from autoadapter.plan.request import PlanRequest, require_a_possible_request, user_flags
from autoadapter.plan.servable import require_servable
from autoadapter.plan.settings import engine_settings


def make_plan(profile: ModelProfile, request: PlanRequest) -> ServingPlan:
    """Decide how to serve a model.

    Args:
        profile: what `analyze` found.
        request: strategy, hardware, workload and what the user fixed.

    Returns:
        A plan whose every setting says why and who said it, and which lists what was not taken.

    Raises:
        UnsupportedModelError: the verdict is that the model does not start or cannot run on this hardware, or a
            blocker of the profile says that the files cannot be served.
        UserError: the user fixed something that is unknown or illegal.
        DoesNotFitError: nothing legal fits the hardware.
    """
    require_servable(profile, request)
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
        env=environment(chosen, request.recipe),
        memory=chosen.memory,
        rejected=choice.rejected,
        findings=tuple(plan_findings(profile, request, user, chosen)),
    )


def can_plan(profile: ModelProfile, request: PlanRequest) -> bool:
    """Whether `make_plan` would give a plan; no other hardware is looked for where it would not."""
    try:
        require_servable(profile, request)
        user = user_flags(request)
        require_a_possible_request(profile, request, user)
        found = find_choice(profile, request, user)
        if found is None:
            return False
        _require_known(engine_settings(profile, request, user, found.candidate), request.vllm_version)
    except AutoadapterError:
        return False
    return True


def _require_known(settings: tuple[EngineSetting, ...], version: str) -> None:
    problems = check(settings, version)
    if problems:
        raise AutoadapterError(
            f"The plan would hold what vLLM {version} refuses: {'; '.join(problems)}.",
            hint="Plan for the vLLM that you run: --vllm-version VERSION",
        )
