"""The `vllm serve` options of a plan: each with its value, why, source and who said it."""

from collections.abc import Iterator

from autoadapter.artifacts import Belief, EngineSetting, ModelProfile, Route, Strategy
from autoadapter.artifacts.serving_plan import SettingValue
from autoadapter.engine import flags
from autoadapter.engine.versions import within
from autoadapter.families import settings_for
from autoadapter.plan.layout import GPU_UTILIZATION, Candidate
from autoadapter.plan.memory import Situation
from autoadapter.plan.naming import served_name
from autoadapter.plan.request import PlanRequest, UserFlags

DRAIN_SECONDS = 30
"""Kubernetes' own default grace period is 30 s; requests that are longer are aborted."""
QUIET_ENDPOINTS = "/health,/metrics,/ping"
DTYPES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32", "bf16": "bfloat16", "fp16": "float16"}
FLOAT16_REFUSED = ("gemma2", "gemma3", "gemma3_text", "glm4")
"""Source: vLLM 0.32 `config/model.py` `_FLOAT16_NOT_SUPPORTED_MODELS`."""
RULE = "plan/layout.py"


def engine_settings(
    profile: ModelProfile, request: PlanRequest, user: UserFlags, chosen: Candidate
) -> tuple[EngineSetting, ...]:
    """All options, strongest belief wins (user, family, computed, vLLM's default), each option once."""
    settled: dict[str, EngineSetting] = {}
    for setting in (
        *_model(profile, request, chosen),
        *_limits(request, chosen),
        *_layout(chosen),
        *_execution(request),
        *_operation(),
        *_family(profile),
        *_recipe(request),
        *_user(user),
    ):
        settled[setting.flag] = setting
    return tuple(settled.values())


def _computed(flag: str, value: SettingValue, why: str, source: str) -> EngineSetting:
    return EngineSetting(flag=flag, value=value, why=why, source=source, belief=Belief.COMPUTED)


def _model(profile: ModelProfile, request: PlanRequest, chosen: Candidate) -> Iterator[EngineSetting]:
    name = served_name(profile)
    yield _computed("served-model-name", (name,), "the name that clients send as `model`", "profile: name of the model")
    dtype, why = serving_dtype(profile, request)
    yield _computed("dtype", dtype, why, "profile: memory.served_dtype")
    if profile.verdict.route is Route.TRANSFORMERS:
        yield _computed("model-impl", "transformers", profile.verdict.reason, "profile: verdict.route")
    length, wanted = chosen.max_model_len, chosen.wanted_len
    longest = profile.max_model_len
    if length < wanted:
        why = f"the longest context that fits beside the weights; the model could do {longest}"
    elif length < longest:
        why = f"the workload's requests, rounded up to a power of two; the model could do {longest}"
    else:
        why = "the model's whole context"
    yield _computed("max-model-len", length, why, "memory plan and profile: max_model_len")


def serving_dtype(profile: ModelProfile, request: PlanRequest) -> tuple[str, str]:
    """The dtype in vLLM's word, and why."""
    dtype = stored_dtype(profile)
    if dtype == "float16" and profile.model_type in FLOAT16_REFUSED:
        return "bfloat16", f"vLLM refuses {profile.model_type} in float16, which the checkpoint says"
    capability = request.hardware.compute_capability
    if dtype == "bfloat16" and capability and tuple(map(int, capability.split("."))) < (8, 0):
        return "float16", f"compute capability {capability} has no bfloat16"
    return dtype, "the dtype that the memory plan counts on, stated so that no default changes it"


def stored_dtype(profile: ModelProfile) -> str:
    """The profile's dtype in vLLM's word."""
    return DTYPES.get(profile.memory.served_dtype, profile.memory.served_dtype)


def _limits(request: PlanRequest, chosen: Candidate) -> Iterator[EngineSetting]:
    batch, situation = chosen.situation.batch, chosen.situation
    strategy, concurrency = request.strategy.value, request.workload.concurrency
    replicas = f", spread over {chosen.layout.data} replicas" if chosen.layout.data > 1 else ""
    yield _computed(
        "max-num-seqs",
        batch.max_num_seqs,
        f"{strategy} for {concurrency} requests at once{replicas}; the sampler's memory grows with it",
        "plan/layout.py: batch_for",
    )
    yield _computed(
        "max-num-batched-tokens",
        batch.max_num_batched_tokens,
        f"{strategy}: tokens of one step; more fill the device, fewer let decodes wait less and take less memory",
        "plan/layout.py: batch_for",
    )
    if situation.hardware.kind == "cuda":
        yield _utilization(request, situation)
    if situation.kv_dtype != "auto":
        why = "half the bytes of a 16-bit KV cache; quality is to be measured by `test`"
        yield _computed("kv-cache-dtype", situation.kv_dtype, why, "compute capability 8.9 and newer compute with FP8")


def _utilization(request: PlanRequest, situation: Situation) -> EngineSetting:
    share = situation.utilization
    if request.strategy is not Strategy.MIN_MEM or share >= GPU_UTILIZATION:
        why = "vLLM's own default, stated because the memory plan depends on it"
        return _computed("gpu-memory-utilization", share, why, "vLLM 0.32 CacheConfig")
    why = (
        f"min_mem takes no more than it needs: weights, overhead and the KV cache of {request.workload.concurrency} "
        "requests at once or of one of full length, at the most that it may take; the rest of the device stays free"
    )
    return _computed("gpu-memory-utilization", share, why, "plan/layout.py: enough_utilization")


def _layout(chosen: Candidate) -> Iterator[EngineSetting]:
    layout = chosen.layout
    why = f"{layout.text}: {chosen.memory.weight_bytes / 1024**3:.1f} GiB of weights on the fullest device"
    for flag, size in (
        ("tensor-parallel-size", layout.tensor),
        ("pipeline-parallel-size", layout.pipeline),
        ("data-parallel-size", layout.data),
    ):
        if size != 1:
            yield _computed(flag, size, why, RULE)
    if layout.expert_parallel:
        why = "experts stay whole and are dealt out over all ranks"
        yield _computed("enable-expert-parallel", True, why, "plan/legality/experts.py")


def _execution(request: PlanRequest) -> Iterator[EngineSetting]:
    if request.hardware.kind == "cpu" and request.strategy is not Strategy.MAX_PERF:
        why = "compiling costs minutes at each cold start on a CPU; max_perf keeps vLLM's default"
        yield _computed("enforce-eager", True, why, "measured on vLLM 0.32 CPU: 45 s to the first answer in eager mode")


def _operation() -> Iterator[EngineSetting]:
    why = "requests in flight may end before the server does; vLLM's default aborts them"
    yield _computed("shutdown-timeout", DRAIN_SECONDS, why, "vLLM 0.32: --shutdown-timeout, default 0")
    why = "probes and scrapers call these every few seconds"
    yield _computed(
        "disable-access-log-for-endpoints",
        QUIET_ENDPOINTS,
        why,
        "vLLM 0.32 documentation, --disable-access-log-for-endpoints",
    )


def _family(profile: ModelProfile) -> Iterator[EngineSetting]:
    """What practice knows. Parsers of chats are no use to a base model, which has no way to chat."""
    rows = settings_for(profile.architecture, profile.model_type)
    can_chat = profile.tokenizer.has_chat_template or any(row.flag == "tokenizer-mode" for _, row in rows)
    for name, row in rows if can_chat else ():
        yield EngineSetting(
            flag=row.flag,
            value=row.value,
            why=row.why,
            source=f"families/{name}.yaml: {row.source}",
            belief=Belief.FAMILY,
        )


def _recipe(request: PlanRequest) -> Iterator[EngineSetting]:
    """What the recipe of this very model says, where the target's vLLM has the option."""
    recipe = request.recipe
    if recipe is None:
        return
    for row in recipe.settings_on(request.hardware.compute_capability):
        known = flags.flag(row.flag)
        if within(request.vllm_version, known.since, known.until):
            why = "the recipe of this very model sets it"
            source = f"recipe {recipe.file}: {row.key}"
            yield EngineSetting(flag=row.flag, value=row.value, why=why, source=source, belief=Belief.FAMILY)


def _user(user: UserFlags) -> Iterator[EngineSetting]:
    for flag, value in user.values.items():
        yield EngineSetting(
            flag=flag, value=value, why="the user asked for it", source=user.sources[flag], belief=Belief.USER
        )
