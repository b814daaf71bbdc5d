"""What a device means for a model."""

import pytest
from hand_operators import operator, with_operators

from autoadapter.artifacts import DeviceFact, ModelProfile
from autoadapter.artifacts.model_profile import QuantizationTraits
from autoadapter.artifacts.model_structure import CacheEntry
from autoadapter.engine.kernels import kernel_row, kernels
from autoadapter.plan.devices import device_facts, stop_reason
from autoadapter.plan.legality import Layout
from tests.unit.plan.sketches import CPU, gpu, llama_8b, mla_16b, qwen3_30b


def facts(model: ModelProfile, name: str, layout: Layout | None = None, count: int = 8) -> dict[str, list[DeviceFact]]:
    found: dict[str, list[DeviceFact]] = {}
    for fact in device_facts(model, gpu(name, count), layout or Layout()):
        found.setdefault(fact.topic, []).append(fact)
    return found


def quantized(
    method: str, bits: int | None = None, group: int | None = None, *, blocks: bool = False, stored: str = "F8_E4M3"
) -> ModelProfile:
    traits = QuantizationTraits(
        method=method, bits=bits, group_size=group, block_size=(128, 128) if blocks else None, source="a test"
    )
    census = llama_8b().tensors.model_copy(update={"parameters_by_dtype": {stored: 1}})
    return llama_8b().model_copy(update={"quantization": traits, "tensors": census})


@pytest.mark.parametrize(
    ("model", "name", "good", "words"),
    [
        (quantized("fp8", 8), "h100", True, "CUTLASS"),
        (quantized("fp8", 8), "a100", False, "Marlin, weights only (W8A16): the memory is saved"),
        (quantized("fp8", 8, 128, blocks=True), "l40s", False, "FP8 in blocks runs on l40s through Marlin"),
        (quantized("fp8", 8, 128, blocks=True), "h200", True, "DeepGEMM"),
        (quantized("compressed-tensors", 8), "t4", False, "FP8 runs on t4 through Marlin"),
        (quantized("compressed-tensors", 8, stored="I8"), "a100", True, "CUTLASS INT8"),
        (quantized("compressed-tensors", 8, stored="I8"), "b200", False, "no INT8 with INT8 activations kernel"),
        (quantized("compressed-tensors", 4, 128), "h100", True, "Machete"),
        (quantized("gptq", 4, 128), "a100", True, "Marlin"),
        (quantized("gptq", 4, 128), "v100", True, "ExLlama"),
        (quantized("awq", 4, 128), "t4", True, "Marlin"),
        (quantized("awq", 4, 128), "v100", False, "no AWQ kernel for compute capability 7.0 (v100)"),
        (quantized("modelopt_fp4", 4, 16), "h200", False, "NVFP4 runs on h200 through Marlin, weights only"),
        (quantized("modelopt_fp4", 4, 16), "b200", True, "FP4"),
        (quantized("modelopt", 8), "l40s", True, "FP8 runs on l40s"),
        (quantized("mxfp4", 4, 32), "t4", False, "no MXFP4 kernel"),
        (quantized("mxfp4", 4, 32), "h100", True, "Triton"),
        (quantized("bitsandbytes", 4), "h100", False, "vLLM 0.32.0 no longer serves bitsandbytes: 0.27.1 was the last"),
    ],
)
def test_kernels_of_quantized_checkpoints(model: ModelProfile, name: str, good: bool, words: str) -> None:
    (fact,) = facts(model, name)["scheme"]
    assert words in fact.text
    assert fact.good == good
    assert "vLLM" in fact.source


STOPS = [
    (quantized("awq", 4, 128), "v100", True),
    (quantized("mxfp4", 4, 32), "t4", True),
    (quantized("fp8", 8), "v100", True),
    (quantized("compressed-tensors", 8, stored="I8"), "b200", True),
    (quantized("bitsandbytes", 4), "h100", True),
    (quantized("fp8", 8), "a100", False),
    (quantized("gptq", 4, 128), "t4", False),
    (quantized("mxfp4", 4, 32), "a100", False),
]


@pytest.mark.parametrize(("model", "name", "stops"), STOPS)
def test_a_scheme_without_any_kernel_stops_and_a_slower_one_does_not(
    model: ModelProfile, name: str, stops: bool
) -> None:
    (fact,) = facts(model, name)["scheme"]
    assert fact.stops is stops
    assert (stop_reason(model, gpu(name)) is not None) is stops


def test_gguf_has_no_kernel_since_optimize_converts_it() -> None:
    model = quantized("gguf", 4, stored="Q4_1")
    assert "scheme" not in facts(model, "h100")
    assert stop_reason(model, gpu("h100")) is None
    assert kernel_row(model) is None


def test_a_method_that_a_release_still_has_is_not_called_gone() -> None:
    model = quantized("bitsandbytes", 4)
    old = model.model_copy(update={"verdict": model.verdict.model_copy(update={"vllm_version": "0.27.1"})})
    assert facts(old, "h100")["scheme"][0].good


def test_what_is_not_quantized_has_no_scheme_and_what_does_not_tell_is_not_guessed() -> None:
    assert "scheme" not in facts(llama_8b(), "h100")
    assert kernel_row(quantized("compressed-tensors", 8, stored="U8")) is None


def test_mixed_precision_has_a_fact_for_each_format() -> None:
    """DeepSeek-V4: FP8 blocks beside MXFP4 experts."""
    parts = [operator("o_proj", 4096, 4096), operator("experts.down_proj", 2048, 4096, "experts", copies=8, active=2)]
    stored = [part.model_copy(update={"dtype": dtype}) for part, dtype in zip(parts, ("fp8", "mxfp4"), strict=True)]
    model = with_operators(quantized("fp8", 8, 128, blocks=True), stored)
    assert [fact.text.split(" runs")[0] for fact in facts(model, "h200")["scheme"]] == ["FP8 in blocks", "MXFP4"]


def test_every_kernel_row_has_a_range_and_a_source() -> None:
    for row in kernels():
        assert row.source
        assert row.until or row.runs
        assert all(run.kernel for run in row.runs)


def test_bfloat16_and_fp8_of_the_device() -> None:
    old, ada = facts(llama_8b(), "t4"), facts(llama_8b(), "l4")
    assert "no bfloat16" in old["dtype"][0].text
    assert "dtype" not in ada
    assert not old["formats"][0].good
    assert ada["formats"][0].text == "l4 multiplies in FP8"
    assert facts(llama_8b(), "b200")["formats"][0].text == "b200 multiplies in FP8 and FP4"
    assert not facts(llama_8b(), "a100")["kv-cache"][0].good
    assert ada["kv-cache"][0].good


def test_volta_is_too_old() -> None:
    (fact,) = facts(llama_8b(), "v100")["device"]
    assert fact.stops
    assert stop_reason(llama_8b(), gpu("v100")) == fact.text
    assert fact.text == "v100 (compute capability 7.0) is too old for vLLM's CUDA 13 wheels"
    assert "device" not in facts(llama_8b(), "t4")


def test_whether_volta_runs_a_vllm_before_cuda_13_is_not_claimed() -> None:
    old = llama_8b().verdict.model_copy(update={"vllm_version": "0.20.0"})
    (fact,) = facts(llama_8b().model_copy(update={"verdict": old}), "v100")["device"]
    assert not fact.stops
    assert "is not known" in fact.text


@pytest.mark.parametrize("name", ["t4", "a100", "l4", "h100", "b200"])
def test_facts_of_a_plain_model_never_stop(name: str) -> None:
    assert stop_reason(llama_8b(), gpu(name, 8)) is None
    assert not any(fact.stops for fact in device_facts(llama_8b(), gpu(name, 8), Layout(tensor=8)))


@pytest.mark.parametrize(
    ("size", "name", "words"),
    [(128, "h100", None), (96, "a100", None), (512, "h100", "beyond FlashAttention 2 and 3"), (100, "h100", "Triton")],
)
def test_head_sizes(size: int, name: str, words: str | None) -> None:
    group = llama_8b().structure.groups[0]
    cache = CacheEntry(kind="full_attention", kv_heads=8, key_dim=size, value_dim=size)
    structure = llama_8b().structure.model_copy(update={"groups": (group.model_copy(update={"caches": (cache,)}),)})
    found = facts(llama_8b().model_copy(update={"structure": structure}), name).get("attention", [])
    assert [words is not None and words in fact.text for fact in found] == ([True] if words else [])


def sparse_latent(heads: int) -> ModelProfile:
    model = mla_16b()
    index = CacheEntry(kind="indexer", kv_heads=1, key_dim=128, value_dim=0, dtype="uint8")
    groups = tuple(group.model_copy(update={"caches": (*group.caches, index)}) for group in model.structure.groups)
    attention = model.attention.model_copy(update={"num_attention_heads": heads})
    structure = model.structure.model_copy(update={"groups": groups})
    return model.model_copy(update={"structure": structure, "attention": attention})


def test_few_query_heads_a_rank_are_padded_by_sparse_kernels() -> None:
    (fact,) = facts(sparse_latent(128), "h200", Layout(tensor=8))["attention"]
    assert fact.text.startswith("16 query heads a rank: FlashMLA's sparse kernels pad them to 64, 75% of that")
    assert "attention" not in facts(sparse_latent(128), "h200", Layout(data=8, expert_parallel=True))
    assert "attention" not in facts(sparse_latent(128), "h200", Layout(tensor=2))
    assert "attention" not in facts(sparse_latent(128), "a100", Layout(tensor=8))
    assert "attention" not in facts(mla_16b(), "h200", Layout(tensor=8))


def test_repeated_caches() -> None:
    latent = [fact.text for fact in facts(mla_16b(), "h200", Layout(tensor=8))["kv-cache"] if not fact.good]
    assert "--data-parallel-size 8 with --enable-expert-parallel holds up to 8 times the tokens" in latent[0]
    copies = [fact.text for fact in facts(llama_8b(), "h200", Layout(tensor=16), 16)["kv-cache"] if not fact.good]
    assert copies == ["2 ranks keep the same key/value heads: 50% of the KV memory holds copies"]
    assert all(fact.good for fact in facts(llama_8b(), "h200", Layout(tensor=8))["kv-cache"])


def test_interconnect() -> None:
    assert "interconnect" not in facts(llama_8b(), "l40s")
    assert "PCIe (32 GB/s" in facts(llama_8b(), "l40s", Layout(tensor=4))["interconnect"][0].text
    assert "interconnect" not in facts(llama_8b(), "l40s", Layout(data=4))
    assert facts(llama_8b(), "h100", Layout(tensor=8))["interconnect"][0].good
    far = facts(llama_8b(), "h100", Layout(tensor=16), 16)["interconnect"][0]
    assert "16 ranks exchange every layer" in far.text
    assert not far.good
    spread = Layout(data=16, expert_parallel=True)
    assert not facts(qwen3_30b(), "h100", spread, 16)["interconnect"][0].good
    assert facts(qwen3_30b(), "gb200", spread, 16)["interconnect"][0].good


def test_a_cpu_has_no_device_facts() -> None:
    assert device_facts(llama_8b(), CPU, Layout()) == ()
