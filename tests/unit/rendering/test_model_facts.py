"""What is said of a model, in the words that are true of it."""

import pytest
from model_sketch import sketch_profile, sketch_sizing

from autoadapter.artifacts import CacheEntry, LayerGroup, ModelProfile, WeightShares
from autoadapter.artifacts.model_profile import QuantizationTraits, RopeTraits
from autoadapter.plan.kv.widths import attention_row, latent_row
from autoadapter.rendering.layer_map import LayerMap
from autoadapter.rendering.layouts import smallest_words, terms_words
from autoadapter.rendering.model_facts import attention, context, fact_rows, kv_cache, parameters, served_as, tokenizer
from autoadapter.rendering.words import CACHE_BYTES, cache_bytes_per_token, number

FULL = CacheEntry(kind="full_attention", kv_heads=8, key_dim=128, value_dim=128)
LATENT = CacheEntry(kind="mla", kv_heads=1, key_dim=576, value_dim=0)
COMPRESSED = FULL.model_copy(update={"tokens_per_entry": 4})


def with_caches(*caches: CacheEntry, layers: int = 80) -> ModelProfile:
    group = LayerGroup(
        layers=tuple(range(layers)),
        mixer="full_attention",
        feed_forward="dense",
        caches=caches,
        weights=WeightShares(),
    )
    profile = sketch_profile()
    memory = {"kv_bytes_per_token": int(layers * cache_bytes_per_token(caches)), "state_bytes_per_request": 0}
    return profile.model_copy(
        update={
            "structure": profile.structure.model_copy(update={"groups": (group,)}),
            "memory": profile.memory.model_copy(update=memory),
        }
    )


def quantized(profile: ModelProfile, **traits: object) -> ModelProfile:
    row = QuantizationTraits.model_validate({"source": "config.json", **traits})
    return profile.model_copy(update={"quantization": row})


def test_the_checkpoint_fixes_the_cache() -> None:
    profile = with_caches(FULL)
    assert kv_cache(profile) == "320.0 KiB a token at 16 bit"
    fixed = quantized(profile, method="modelopt", bits=8, kv_cache_dtype="fp8_e4m3")
    assert kv_cache(fixed) == "160.0 KiB a token at fp8_e4m3, set by the checkpoint"


@pytest.mark.parametrize("word", sorted(CACHE_BYTES))
def test_bytes_of_a_cache_are_those_of_the_plan(word: str) -> None:
    assert cache_bytes_per_token((FULL,), word) == attention_row(FULL, 8, word, "bfloat16")
    assert cache_bytes_per_token((LATENT,), word) == latent_row(LATENT, word, "bfloat16")


def test_shared_entries_have_no_bytes_a_token() -> None:
    profile = with_caches(COMPRESSED)
    assert kv_cache(profile) == "compressed by layer; see KV tokens"
    assert LayerMap.of(profile.structure).rows[0].cache == "one entry for up to 4 tokens"


def test_the_map_counts_in_the_type_that_is_fixed() -> None:
    structure = with_caches(FULL).structure
    assert LayerMap.of(structure).rows[0].cache == "4.0 KiB a token"
    assert LayerMap.of(structure, "fp8_e4m3").rows[0].cache == "2.0 KiB a token"


@pytest.mark.parametrize(
    ("traits", "words"),
    [
        (None, "bfloat16"),
        ({"method": "fp8", "bits": 8}, "fp8 (8 bit)"),
        ({"method": "mxfp4"}, "mxfp4"),
        ({"method": "gguf", "bits": 4}, "bfloat16 after conversion"),
    ],
)
def test_how_weights_are_served(traits: dict[str, object] | None, words: str) -> None:
    profile = quantized(sketch_profile(), **traits) if traits else sketch_profile()
    assert served_as(profile) == words
    assert dict(fact_rows(profile))["weights"].endswith(f"served as {words}")


def test_gguf_is_told_by_its_files() -> None:
    profile = sketch_profile()
    profile = profile.model_copy(update={"tensors": profile.tensors.model_copy(update={"format": "gguf"})})
    assert served_as(profile) == "bfloat16 after conversion"


def test_a_latent_has_no_heads() -> None:
    profile = with_caches(LATENT)
    traits = profile.attention.model_copy(
        update={"kind": "mla", "num_attention_heads": 128, "num_key_value_heads": 128, "head_dim": 576}
    )
    assert attention(profile.model_copy(update={"attention": traits})) == "mla, 128 heads, one latent of 576"


def test_parameters_and_those_of_a_token() -> None:
    sizing = sketch_sizing().model_copy(update={"parameters": 30_532_000_000, "active_parameters": 3_350_000_000})
    empty = sketch_profile()
    none = empty.tensors.model_copy(update={"tensors": 0, "parameters": 0, "format": "none"})
    empty = empty.model_copy(update={"tensors": none})
    assert parameters(empty, sizing) == "30.53B parameters, 3.35B active a token"
    assert dict(fact_rows(empty, sizing))["size"].endswith("by the configuration")
    assert "size" not in dict(fact_rows(empty, sketch_sizing()))
    dense = sizing.model_copy(update={"active_parameters": 30_532_000_000})
    assert parameters(empty, dense) == "30.53B parameters"


def test_numbers_have_separators_and_no_exponents() -> None:
    rope = RopeTraits(theta=1e7, kind="default")
    assert context(sketch_profile().model_copy(update={"rope": rope})).endswith("theta 10,000,000")
    assert [number(value) for value in (4096.0, 0.25, 3.14159, 99.96, 2.0, 1e-9)] == [
        "4,096",
        "0.25",
        "3.14",
        "100",
        "2",
        "under 0.0001",
    ]


def test_the_tokenizer_counts_what_is_known() -> None:
    profile = sketch_profile()
    assert "151,669 tokens" in tokenizer(profile)
    unknown = profile.tokenizer.model_copy(update={"vocab_size": None})
    assert "?" not in tokenizer(profile.model_copy(update={"tokenizer": unknown}))
    none = profile.tokenizer.model_copy(update={"kind": "none", "vocab_size": None})
    assert tokenizer(profile.model_copy(update={"tokenizer": none})) == "none"


def test_which_hardware_would_do() -> None:
    assert smallest_words(sketch_sizing()).endswith("(least total GPU memory): l40s:1")
    none = sketch_sizing().model_copy(update={"smallest": None})
    assert smallest_words(none) == "nothing in the catalogue serves one such request"


def test_a_cpu_has_its_own_share() -> None:
    cpu = sketch_sizing("cpu", kind="cpu", count=1)
    gpu = sketch_sizing().model_copy(update={"gpu_memory_utilization": 0.92})
    assert terms_words([cpu, gpu]) == "context 262,144, utilization 0.92 (CPU 0.9)"
    assert terms_words([gpu]) == "context 262,144, utilization 0.92"
