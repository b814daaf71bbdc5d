"""What a plan has to warn of."""

from collections.abc import Iterator

from autoadapter.artifacts import Finding, Level, ModelProfile
from autoadapter.families import recipe_findings
from autoadapter.plan.kv import kv_notes
from autoadapter.plan.layout import Candidate
from autoadapter.plan.request import PlanRequest, UserFlags
from autoadapter.plan.settings import serving_dtype, stored_dtype
from autoadapter.plan.weights import is_estimated, unreliable_estimate

SAFE_UTILIZATION = 0.95
FULL_SHARE = 0.8


def plan_findings(
    profile: ModelProfile, request: PlanRequest, user: UserFlags, chosen: Candidate
) -> tuple[Finding, ...]:
    """The profile's blockers as they are, then the plan's own."""
    blockers = [finding for finding in profile.findings if finding.level is Level.BLOCKER]
    own = (*_of_model(profile, request), *_of_size(profile, request, chosen), *_of_user(user))
    return (*blockers, *own, *(recipe_findings(request.recipe, request.vllm_version) if request.recipe else ()))


def _finding(code: str, level: Level, message: str, source: str, hint: str | None = None) -> Finding:
    return Finding(code=f"plan.{code}", level=level, message=message, hint=hint, source=source)


def _of_model(profile: ModelProfile, request: PlanRequest) -> Iterator[Finding]:
    if profile.verdict.outcome == "starts_but_wrong":
        yield _finding("wrong-answers", Level.BLOCKER, profile.verdict.reason, "profile: verdict")
    if is_estimated(profile):
        yield _estimated(profile)
    if serving_dtype(profile, request)[0] != stored_dtype(profile):
        text = f"Served as float16, since {request.hardware.text} has no bfloat16; large activations may overflow."
        yield _finding("float16", Level.WARNING, text, request.hardware.source)


def _estimated(profile: ModelProfile) -> Finding:
    hint = "Plan again beside the real weights"
    doubt = unreliable_estimate(profile)
    if doubt is None:
        text = "No tensor headers were found; the size of the weights is an estimate from the configuration."
        return _finding("weights-estimated", Level.WARNING, text, "config.json", hint)
    text = f"No tensor headers were found, and the estimate of the weights is unreliable: {doubt}."
    return _finding("estimate-unreliable", Level.WARNING, text, "config.json", hint)


def _of_size(profile: ModelProfile, request: PlanRequest, chosen: Candidate) -> Iterator[Finding]:
    layout, memory, work = chosen.layout, chosen.memory, request.workload
    if chosen.max_model_len < chosen.wanted_len:
        text = f"The context is {chosen.max_model_len} tokens, the model could do {profile.max_model_len}."
        yield _finding("short-context", Level.WARNING, text, "memory plan", "More memory or --strategy min_mem")
    need = work.concurrency * (work.input_len + work.output_len)
    if chosen.total_tokens < need:
        text = f"The KV cache holds {chosen.total_tokens} tokens, the workload wants {need} at once: requests wait."
        yield _finding("few-requests", Level.WARNING, text, "memory plan")
    if layout.devices < request.hardware.count:
        text = f"{layout.text} uses {layout.devices} of {request.hardware.count} devices."
        yield _finding("idle-devices", Level.INFO, text, "plan/layout.py")
    for note in kv_notes(profile.structure, chosen.situation.question):
        yield _finding("cache-estimate", Level.INFO, note, "plan/kv")
    is_full = memory.overhead_bytes + memory.weight_bytes > memory.device_bytes * FULL_SHARE
    if is_full and request.hardware.kind == "cuda":
        text = "Weights and overhead take more than 80 % of the device; the overhead is an estimate."
        yield _finding("tight", Level.WARNING, text, "memory plan", "autoadapter test measures it")


def _of_user(user: UserFlags) -> Iterator[Finding]:
    if user.values.get("trust-remote-code") is True:
        text = "The server runs Python code that comes with the checkpoint."
        yield _finding("trust-remote-code", Level.WARNING, text, "--engine-arg trust-remote-code")
    share = user.number("gpu-memory-utilization")
    if share is not None and share > SAFE_UTILIZATION:
        text = (
            f"gpu-memory-utilization {share:g} leaves less than 5 % of the device for CUDA graphs and fragmentation: "
            "servers have run out of memory under load."
        )
        hint = f"--engine-arg gpu-memory-utilization={SAFE_UTILIZATION}, or leave it out"
        yield _finding("high-utilization", Level.WARNING, text, "vllm#21410, vllm#57475", hint)
