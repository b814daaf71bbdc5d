"""The whole plan: what a strategy decides, what a user may fix, and how each refusal reads."""

import shlex

import pytest
from uniform_structure import uniform_structure

from autoadapter.artifacts import Belief, Hardware, Level, ModelKind, Route, ServingPlan, Strategy, Workload
from autoadapter.artifacts.model_profile import QuantizationTraits
from autoadapter.engine.flags import check
from autoadapter.errors import AutoadapterError, DoesNotFitError, UnsupportedModelError, UserError
from autoadapter.hardware import parse_hardware
from autoadapter.plan import can_plan, make_plan
from tests.unit.plan.sketches import (
    CPU,
    GIB,
    gpu,
    llama_8b,
    llama_70b,
    mla_16b,
    profile,
    qwen3_14b,
    qwen3_30b,
    smollm2,
    wish,
)


def layout(plan: ServingPlan) -> tuple[int, int, int]:
    sizes = plan.parallelism
    return sizes.tensor_parallel_size, sizes.pipeline_parallel_size, sizes.data_parallel_size


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("hardware", [CPU, gpu("t4"), gpu("l4"), gpu("a100", 2), gpu("h200", 8), gpu("b200")])
def test_every_plan_speaks_vllms_language_and_explains_itself(hardware: Hardware, strategy: Strategy) -> None:
    plan = make_plan(smollm2(), wish(hardware, strategy))
    assert check(plan.settings, plan.vllm_version) == ()
    assert all(setting.why and setting.source for setting in plan.settings)
    assert len({setting.flag for setting in plan.settings}) == len(plan.settings)
    assert plan == make_plan(smollm2(), wish(hardware, strategy))
    assert plan == ServingPlan.model_validate_json(plan.to_json())
    total = plan.memory.weight_bytes + plan.memory.overhead_bytes + plan.memory.kv_pool_bytes
    assert total <= plan.memory.device_bytes
    length = plan.setting("max-model-len")
    assert isinstance(length, int)
    assert plan.memory.kv_tokens >= length


def test_max_perf_takes_the_smallest_tensor_size_and_replicas() -> None:
    assert layout(make_plan(llama_8b(), wish(gpu("h200", 8)))) == (1, 1, 8)
    plan = make_plan(llama_70b(), wish(gpu("h100", 8), scheme="as_is"))
    assert layout(plan) == (4, 1, 2)
    assert {row.choice: row.reason for row in plan.rejected}["TP 1 × DP 8"].startswith("it does not hold a request")


def test_balanced_leaves_half_of_the_device_to_the_cache() -> None:
    plan = make_plan(llama_70b(), wish(gpu("h100", 8), Strategy.BALANCED, scheme="fp8_dynamic"))
    assert layout(plan) == (2, 1, 4)
    assert plan.memory.weight_bytes <= plan.memory.device_bytes / 2


def test_balanced_and_max_perf_part_ways_where_weights_fill_the_device() -> None:
    """14B in 16 bit is 27.5 GiB, seven tenths of a 40 GB A100."""
    two = gpu("a100-40g", 2)
    plans = {
        strategy: make_plan(qwen3_14b(), wish(two, strategy, scheme="as_is", max_model_len=4096))
        for strategy in (Strategy.MAX_PERF, Strategy.BALANCED)
    }
    assert layout(plans[Strategy.MAX_PERF]) == (1, 1, 2)
    assert layout(plans[Strategy.BALANCED]) == (2, 1, 1)


def test_min_mem_takes_the_fewest_devices_and_the_smallest_limits() -> None:
    small = make_plan(llama_8b(), wish(gpu("h200", 8), Strategy.MIN_MEM))
    large = make_plan(llama_8b(), wish(gpu("h200", 8), Strategy.MAX_PERF))
    assert layout(small) == (1, 1, 1)
    assert small.setting("kv-cache-dtype") == "fp8"
    assert (small.setting("max-model-len"), small.setting("max-num-seqs")) == (2048, 16)
    assert small.memory.overhead_bytes < large.memory.overhead_bytes
    assert [finding.code for finding in small.findings] == ["plan.idle-devices"]


def test_mla_runs_attention_data_parallel_with_whole_experts() -> None:
    plan = make_plan(mla_16b(), wish(gpu("h100", 8)))
    assert layout(plan) == (1, 1, 8)
    assert plan.setting("enable-expert-parallel") is True


def test_pipeline_is_the_last_resort() -> None:
    """9 heads cannot be split over 2; in two stages the model fits."""
    embedding = smollm2().embedding.model_copy(update={"vocab_size": 64 * 700, "hidden_size": 4608})
    huge = smollm2().model_copy(
        update={
            "embedding": embedding,
            "tensors": smollm2().tensors.model_copy(update={"parameters": 15 * GIB}),
            "structure": uniform_structure(smollm2().attention, embedding, None, 30 * GIB),
        }
    )
    plan = make_plan(huge, wish(gpu("l4", 2), scheme="as_is"))
    assert layout(plan) == (1, 2, 1)


def test_family_settings_come_with_their_source_and_yield_to_the_user() -> None:
    plan = make_plan(qwen3_14b(), wish(gpu("h200")))
    setting = next(setting for setting in plan.settings if setting.flag == "reasoning-parser")
    assert (setting.value, setting.belief) == ("qwen3", Belief.FAMILY)
    assert setting.source.startswith("families/qwen3.yaml: ")
    mine = make_plan(qwen3_14b(), wish(gpu("h200"), engine_args={"reasoning_parser": "deepseek_r1"}))
    setting = next(setting for setting in mine.settings if setting.flag == "reasoning-parser")
    assert (setting.value, setting.belief, setting.source) == (
        "deepseek_r1",
        Belief.USER,
        "--engine-arg reasoning-parser",
    )


def test_a_base_model_gets_no_chat_parsers() -> None:
    tokenizer = qwen3_14b().tokenizer.model_copy(update={"has_chat_template": False})
    plan = make_plan(qwen3_14b().model_copy(update={"tokenizer": tokenizer}), wish(gpu("h200")))
    assert plan.setting("reasoning-parser") is None


def test_what_the_user_fixes_enters_the_memory_plan() -> None:
    free = make_plan(llama_8b(), wish(gpu("h200", 4)))
    fixed = make_plan(
        llama_8b(),
        wish(
            gpu("h200", 4),
            max_model_len=4096,
            served_name="prod",
            engine_args={
                "tensor-parallel-size": 2,
                "data_parallel_size": 1,
                "max-num-seqs": 8,
                "gpu-memory-utilization": 0.5,
                "kv_cache_dtype": "fp8",
            },
        ),
    )
    assert layout(fixed) == (2, 1, 1)
    assert fixed.memory.kv_pool_bytes < free.memory.kv_pool_bytes / 1.5
    assert fixed.memory.kv_bytes_per_token == free.memory.kv_bytes_per_token // 4
    assert (fixed.served_name, fixed.setting("served-model-name")) == ("prod", ("prod",))
    assert {s.flag: s.belief for s in fixed.settings}["max-model-len"] is Belief.USER


def test_the_context_shrinks_to_what_fits_and_says_so() -> None:
    plan = make_plan(llama_8b(), wish(gpu("l4"), scheme="as_is", workload=Workload(concurrency=1)))
    length = plan.setting("max-model-len")
    assert isinstance(length, int)
    assert 1280 <= length < 131_072
    assert length % 256 == 0
    assert length <= plan.memory.kv_tokens
    assert "plan.short-context" in [finding.code for finding in plan.findings]


def test_trust_in_remote_code_is_only_the_users() -> None:
    plain = make_plan(smollm2(), wish(CPU))
    assert plain.setting("trust-remote-code") is None
    trusting = make_plan(smollm2(), wish(CPU, engine_args={"trust-remote-code": True}))
    assert trusting.setting("trust-remote-code") is True
    assert [f.level for f in trusting.findings if f.code == "plan.trust-remote-code"] == [Level.WARNING]


def test_turing_is_served_in_float16_with_a_warning() -> None:
    plan = make_plan(smollm2(), wish(gpu("t4")))
    assert plan.setting("dtype") == "float16"
    assert "plan.float16" in [finding.code for finding in plan.findings]


def test_route_transformers_is_stated() -> None:
    verdict = smollm2().verdict.model_copy(update={"route": Route.TRANSFORMERS})
    plan = make_plan(smollm2().model_copy(update={"verdict": verdict}), wish(CPU))
    assert plan.setting("model-impl") == "transformers"


def test_cpu_environment() -> None:
    plan = make_plan(smollm2(), wish(CPU))
    assert {variable.name: variable.value for variable in plan.env} == {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
    }
    assert plan.setting("gpu-memory-utilization") is None
    assert plan.setting("enforce-eager") is None
    assert make_plan(smollm2(), wish(CPU, Strategy.BALANCED)).setting("enforce-eager") is True


@pytest.mark.parametrize("name", ["--trust-remote-code", "-x", "a\nb", 'say "hi"', "$(id)"])
def test_a_hostile_folder_name_becomes_a_slug(name: str) -> None:
    ref = smollm2().ref.model_copy(update={"kind": ModelKind.FOLDER, "location": f"/models/{name}"})
    plan = make_plan(smollm2().model_copy(update={"ref": ref}), wish(CPU))
    assert plan.served_name == ref.slug
    assert not plan.served_name.startswith("-")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"max_model_len": 10_000},
            "example/smollm2-135m has a context of 8192 tokens; --max-model-len 10000 is more than that.",
        ),
        ({"max_model_len": 0}, "--max-model-len must be at least 1, not 0."),
        (
            {"workload": Workload(input_len=8000, output_len=500)},
            "The workload needs 8500 tokens a request (8000 in, 500 out), the context is 8192.",
        ),
        (
            {"workload": Workload(concurrency=0)},
            "A workload needs at least 1 input token, 1 output token and 1 request at once.",
        ),
        ({"engine_args": {"max-num-seq": 4}}, "vLLM has no option 'max-num-seq'. Did you mean max-num-seqs?"),
        ({"engine_args": {"max-num-seqs": "many"}}, "--max-num-seqs takes int, not 'many'."),
        ({"engine_args": {"port": 80}}, "--port cannot be planned: it belongs to the place of deployment: use the"),
        ({"engine_args": {"api-key": "k"}}, "--api-key cannot be planned: a plan is not a place for secrets"),
        ({"engine_args": {"load-format": "--port=1"}}, "--load-format may not have a value that starts with a dash"),
        ({"engine_args": {"gpu-memory-utilization": 1.5}}, "--gpu-memory-utilization is a share above 0 and at most 1"),
        ({"served_name": "--port=1"}, "'--port=1' cannot be a served model name"),
        ({"served_name": "  "}, "'  ' cannot be a served model name"),
    ],
)
def test_wishes_that_cannot_be(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        make_plan(smollm2(), wish(CPU, **changes))  # type: ignore[arg-type]
    assert str(caught.value).startswith(sentence)


def test_an_illegal_layout_is_refused_with_its_reason() -> None:
    with pytest.raises(UserError, match="9 attention heads cannot be divided by 2"):
        make_plan(smollm2(), wish(gpu("h200", 8), engine_args={"tensor-parallel-size": 2}))
    with pytest.raises(UserError, match="h200:1 has 1 device"):
        make_plan(llama_8b(), wish(gpu("h200"), engine_args={"tensor-parallel-size": 2}))


def test_what_does_not_fit_names_the_smallest_that_does() -> None:
    with pytest.raises(DoesNotFitError) as caught:
        make_plan(llama_70b(), wish(gpu("h100"), scheme="as_is"))
    error = caught.value
    assert str(error).startswith("example/llama-70b does not fit h100:1: 131.4 GiB of weights a device under as_is")
    assert error.exit_code == 4
    assert error.smallest == "h100:2"
    assert str(error).endswith("h100:2 holds it.")
    assert error.hint == "autoadapter generate --hardware h100:2 --strategy max_perf --scheme as_is"
    assert error.needed_bytes == pytest.approx(70_553_706_496 * 2, rel=0.01)
    assert error.available_bytes == gpu("h100").memory_bytes
    plan = make_plan(llama_70b(), wish(parse_hardware(error.smallest), scheme="as_is"))
    assert plan.parallelism.tensor_parallel_size == 2


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("hardware", [gpu("l4"), gpu("a100-40g"), CPU])
def test_the_command_of_the_hint_plans(hardware: Hardware, strategy: Strategy) -> None:
    """What is promised holds under the same strategy, with everything that the user fixed."""
    fixed: dict[str, object] = {"max_model_len": 8192, "engine_args": {"enforce-eager": True, "tokenizer": "my folder"}}
    with pytest.raises(DoesNotFitError) as caught:
        make_plan(llama_70b(), wish(hardware, strategy, workload=Workload(concurrency=2), **fixed))  # type: ignore[arg-type]
    hint = shlex.split(caught.value.hint or "")
    assert caught.value.smallest is not None
    assert hint[:6] == ["autoadapter", "generate", "--hardware", caught.value.smallest, "--strategy", strategy.value]
    assert hint[6:] == [
        *("--max-model-len", "8192", "--concurrency", "2"),
        *("--engine-arg", "enforce-eager=true", "--engine-arg", "tokenizer=my folder"),
    ]
    offer = parse_hardware(caught.value.smallest)
    plan = make_plan(llama_70b(), wish(offer, strategy, workload=Workload(concurrency=2), **fixed))  # type: ignore[arg-type]
    assert plan.strategy is strategy


def test_a_scheme_that_the_user_fixed_is_kept_by_the_promise() -> None:
    """An INT8 kernel ends at compute capability 9.0, so no Blackwell is promised."""
    with pytest.raises(DoesNotFitError) as caught:
        make_plan(llama_70b(), wish(gpu("t4"), scheme="int8_w8a8", workload=Workload(concurrency=1)))
    offer = parse_hardware(caught.value.smallest or "")
    plan = make_plan(llama_70b(), wish(offer, scheme="int8_w8a8", workload=Workload(concurrency=1)))
    assert plan.scheme.name == "int8_w8a8"


def test_a_device_that_cannot_run_the_model_is_refused_with_one_that_can() -> None:
    with pytest.raises(UnsupportedModelError, match=r"cannot run on v100:1: v100 .* too old") as caught:
        make_plan(smollm2(), wish(gpu("v100")))
    hint = shlex.split(caught.value.hint or "")
    make_plan(smollm2(), wish(parse_hardware(hint[3])))
    traits = QuantizationTraits(method="mxfp4", bits=4, group_size=32, source="a test")
    with pytest.raises(UnsupportedModelError, match=r"vLLM has no MXFP4 kernel for compute capability 7\.5") as caught:
        make_plan(smollm2().model_copy(update={"quantization": traits}), wish(gpu("t4")))
    assert caught.value.exit_code == 4


def test_a_model_too_large_for_the_cpu_is_offered_a_gpu() -> None:
    with pytest.raises(DoesNotFitError) as caught:
        make_plan(qwen3_30b(), wish(CPU))
    assert caught.value.smallest is not None
    make_plan(qwen3_30b(), wish(parse_hardware(caught.value.smallest)))


@pytest.mark.parametrize(("outcome", "route"), [("will_not_start", Route.UNSUPPORTED), ("will_start", Route.SHIM)])
def test_a_model_that_does_not_start_is_refused_with_the_verdict(outcome: str, route: Route) -> None:
    model = profile(
        name="example/none",
        parameters=1,
        embedding=smollm2().embedding,
        attention=smollm2().attention,
        mlp=None,
        kv_bytes_per_token=1,
        outcome=outcome,
        route=route,
    )
    with pytest.raises(UnsupportedModelError, match="a reason") as caught:
        make_plan(model, wish(CPU))
    assert caught.value.exit_code == 4


def test_wrong_answers_are_a_blocker() -> None:
    verdict = smollm2().verdict.model_copy(update={"outcome": "starts_but_wrong"})
    plan = make_plan(smollm2().model_copy(update={"verdict": verdict}), wish(CPU))
    assert [f.code for f in plan.findings if f.level is Level.BLOCKER] == ["plan.wrong-answers"]


def test_an_option_that_the_version_lacks_stops_the_plan() -> None:
    with pytest.raises(AutoadapterError, match=r"--shutdown-timeout exists since vLLM 0\.18\.0"):
        make_plan(smollm2(), wish(CPU, vllm_version="0.17.1"))


def test_min_mem_leaves_the_rest_of_a_gpu_free() -> None:
    plan = make_plan(llama_8b(), wish(gpu("h200"), Strategy.MIN_MEM))
    share, memory = plan.setting("gpu-memory-utilization"), plan.memory
    assert isinstance(share, float)
    assert share == round(share, 2) < 0.2
    workload = 16 * 1280 * memory.kv_bytes_per_token
    fixed = memory.weight_bytes + memory.overhead_bytes
    assert memory.kv_pool_bytes == int(memory.device_bytes * share) - fixed >= workload
    unsure = 1.45 * GIB  # what the intervals of a version without measured starts add at most
    assert (share - 0.01) * memory.device_bytes < fixed + unsure + workload <= share * memory.device_bytes
    setting = next(setting for setting in plan.settings if setting.flag == "gpu-memory-utilization")
    assert "min_mem takes no more than it needs" in setting.why
    assert plan.findings == ()


def test_min_mem_holds_one_request_of_full_length() -> None:
    plan = make_plan(llama_8b(), wish(gpu("h200"), Strategy.MIN_MEM, max_model_len=131_072))
    assert plan.memory.kv_tokens >= 131_072
    assert plan.memory.max_concurrency < 1.5


def test_min_mem_never_takes_more_than_the_default() -> None:
    plan = make_plan(llama_8b(), wish(gpu("l4"), Strategy.MIN_MEM, workload=Workload(concurrency=500)))
    assert plan.setting("gpu-memory-utilization") == 0.92


@pytest.mark.parametrize("strategy", [Strategy.MAX_PERF, Strategy.BALANCED])
def test_other_strategies_take_vllms_share(strategy: Strategy) -> None:
    assert make_plan(llama_8b(), wish(gpu("h200"), strategy)).setting("gpu-memory-utilization") == 0.92


def test_the_users_share_beats_the_frugal_one() -> None:
    args: dict[str, bool | int | float | str] = {"gpu-memory-utilization": 0.5}
    plan = make_plan(llama_8b(), wish(gpu("h200"), Strategy.MIN_MEM, engine_args=args))
    assert plan.setting("gpu-memory-utilization") == 0.5
    assert plan.memory.kv_pool_bytes > 40 * GIB


@pytest.mark.parametrize(("share", "expected"), [(0.95, []), (0.96, [Level.WARNING])])
def test_a_share_that_leaves_no_slack_is_warned_of(share: float, expected: list[Level]) -> None:
    plan = make_plan(llama_8b(), wish(gpu("h200"), engine_args={"gpu-memory-utilization": share}))
    assert [finding.level for finding in plan.findings if finding.code == "plan.high-utilization"] == expected


@pytest.mark.parametrize("hardware", [gpu("h200"), gpu("t4"), gpu("h100", 2), CPU])
def test_can_plan_is_what_make_plan_does(hardware: Hardware) -> None:
    for model in (smollm2(), llama_8b(), llama_70b()):
        request = wish(hardware, max_model_len=4096)
        try:
            make_plan(model, request)
        except AutoadapterError:
            assert not can_plan(model, request)
        else:
            assert can_plan(model, request)
