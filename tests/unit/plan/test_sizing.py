"""The sizing of a model on hardware: every layout with its account, and what the account says."""

import pytest

from autoadapter.artifacts import Encoder, LayoutSizing, ModelProfile, Sizing
from autoadapter.hardware import parse_hardware
from autoadapter.plan import SizingRequest, common_hardware, size_model
from autoadapter.plan.activation import Batch
from autoadapter.plan.encoders import cache_tokens, encoder_facts
from autoadapter.plan.sizing import smallest_hardware
from tests.unit.plan.sketches import CPU, GIB, llama_8b, llama_70b, mla_16b, qwen3_14b, qwen3_30b, smollm2


def sized(profile: ModelProfile, hardware: str, length: int | None = None, version: str = "0.32.0") -> Sizing:
    return size_model(profile, SizingRequest(parse_hardware(hardware), version, length))


def layout(sizing: Sizing, tensor: int, pipeline: int = 1, data: int = 1, *, experts: bool = False) -> LayoutSizing:
    wanted = (tensor, pipeline, data, experts)
    return next(
        row for row in sizing.layouts if (*row.parallelism.model_dump().values(), row.expert_parallel) == wanted
    )


def test_every_account_adds_up() -> None:
    for model in (llama_8b(), llama_70b(), qwen3_30b(), mla_16b()):
        for row in (row for row in sized(model, "h200:8").layouts if row.legal):
            assert row.activation and row.non_torch and row.kv_pool
            reserved = row.graphs.likely if row.graphs else 0
            budget = int(parse_hardware("h200").memory_bytes * 0.92)
            terms = row.weight_bytes + row.activation.likely + row.non_torch.likely + reserved
            slack = 0 if row.parallelism.pipeline_parallel_size == 1 else row.weight_bytes
            assert abs(budget - terms - row.kv_pool.likely) <= slack
            assert row.kv_pool.low <= row.kv_pool.likely <= row.kv_pool.high


def test_a_layout_that_is_too_small_says_what_fits() -> None:
    row = layout(sized(llama_8b(), "l4", 131_072), 1)
    assert row.legal and not row.fits
    assert row.reason is not None and "one request of 131,072 tokens needs 16.0" in row.reason
    longest = row.kv.longest if row.kv else 0
    assert f"(--max-model-len {longest})" in row.reason
    again = layout(sized(llama_8b(), "l4", longest), 1)
    assert again.fits and again.reason is None
    assert not layout(sized(llama_8b(), "l4", longest + 16), 1).fits


def test_weights_that_exceed_the_device_are_refused_in_words() -> None:
    row = layout(sized(llama_70b(), "h100"), 1)
    assert row.reason == "weights and overhead alone are more than the budget"
    assert row.kv is None and not row.fits


def test_refused_layouts_come_last_with_vllms_reason() -> None:
    sizing = sized(qwen3_14b(), "h200:8")
    legal = [row.legal for row in sizing.layouts]
    assert legal == sorted(legal, reverse=True)
    assert "cannot be divided" in (layout(sizing, 3).reason or "")
    assert layout(sizing, 3).arithmetic == "" and layout(sizing, 3).kv_pool is None


def test_the_tightest_stage_decides() -> None:
    sizing = sized(llama_70b(), "h100:4", 8192)
    two, alone = layout(sizing, 2, 2), layout(sizing, 4)
    assert two.kv and alone.kv and two.kv_pool and alone.kv_pool
    assert two.weight_bytes > alone.weight_bytes * 0.95
    assert two.kv.tokens != alone.kv.tokens


def test_replicas_hold_what_one_holds_and_experts_are_dealt_out() -> None:
    sizing = sized(qwen3_30b(), "h200:4")
    one, replicas = layout(sizing, 1), layout(sizing, 1, 1, 4, experts=True)
    assert replicas.weight_bytes < one.weight_bytes / 2
    dense = sized(llama_8b(), "h200:4")
    assert layout(dense, 1).weight_bytes == layout(dense, 1, 1, 4).weight_bytes


def test_the_smallest_hardware_serves_and_nothing_below_it_does() -> None:
    request = SizingRequest(parse_hardware("cpu"), "0.32.0", 8192)
    name = smallest_hardware(llama_70b(), request)
    assert name is not None
    chosen = parse_hardware(name)
    assert any(row.fits for row in sized(llama_70b(), name, 8192).layouts)
    fewer = parse_hardware(f"{chosen.name}:{max(1, chosen.count // 2)}")
    assert chosen.count == 1 or not any(
        row.fits for row in sized(llama_70b(), fewer.text, 8192).layouts if row.parallelism.pipeline_parallel_size == 1
    )


def test_common_hardware_is_the_least_that_serves() -> None:
    offers = {
        sizing.hardware.name: sizing for sizing in common_hardware(llama_70b(), SizingRequest(CPU, "0.32.0", 8192))
    }
    assert offers["a100"].hardware.count >= 2 and offers["h200"].hardware.count == 2
    for sizing in offers.values():
        half = sizing.hardware.count // 2
        assert not half or not layout(sized(llama_70b(), f"{sizing.hardware.name}:{half}", 8192), half).fits
    assert all(sizing.layouts[0].fits or sizing.hardware.count == 8 for sizing in offers.values())


def test_a_cpu_has_no_room_for_more_than_its_memory() -> None:
    request = SizingRequest(CPU, "0.32.0", 8192)
    assert layout(size_model(smollm2(), request), 1).fits
    assert not layout(size_model(llama_70b(), request), 1).fits


@pytest.mark.parametrize(("version", "reserved"), [("0.19.0", False), ("0.25.1", False), ("0.32.0", True)])
def test_graphs_are_taken_off_where_that_version_does_so(version: str, reserved: bool) -> None:
    row = layout(sized(llama_8b(), "h200", version=version), 1)
    assert (row.graphs is not None) is reserved
    assert ("graphs" in row.arithmetic) is reserved


def test_utilization_follows_the_version() -> None:
    assert sized(llama_8b(), "h200", version="0.19.0").gpu_memory_utilization == 0.9
    assert sized(llama_8b(), "h200").gpu_memory_utilization == 0.92


def test_the_cache_of_a_tower_holds_a_step_or_one_item() -> None:
    batch = Batch(max_num_seqs=16, max_num_batched_tokens=2048, graphs=True)
    small = Encoder(modality="image", model_type="siglip", weight_bytes=GIB, tokens_per_item=256, why="a test")
    large = small.model_copy(update={"tokens_per_item": 16_384})
    assert (cache_tokens(small, batch), cache_tokens(large, batch)) == (2048, 16_384)
    structure = llama_8b().structure.model_copy(update={"encoders": (small,)})
    (fact,) = encoder_facts(llama_8b().model_copy(update={"structure": structure}), batch)
    assert "2,048 embeddings (0.02 GiB)" in fact.text and "8 items of 256 tokens a step" in fact.text


def test_a_model_without_known_layers_is_not_sized() -> None:
    structure = llama_8b().structure.model_copy(update={"groups": (), "embedding_bytes": 0, "head_bytes": 0})
    unknown = llama_8b().model_copy(update={"structure": structure})
    sizing = sized(unknown, "h200:2")
    assert (sizing.layouts, sizing.smallest) == ((), None)
    assert list(common_hardware(unknown, SizingRequest(CPU, "0.32.0"))) == []
