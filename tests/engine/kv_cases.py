"""Layers and flags as one description, for AutoAdapter and for vLLM: models by kind, and random ones."""

import random
from dataclasses import asdict, dataclass, replace
from typing import TypedDict

from autoadapter.artifacts import CacheEntry, LayerGroup, ModelStructure, StateEntry, WeightShares
from autoadapter.plan.kv import KvQuestion

GIB = 1 << 30


class Cache(TypedDict):
    """One cache of a layer, of the whole model. `window` is a chunk's size too."""

    kind: str
    heads: int
    key: int
    value: int
    window: int | None
    ratio: int


class State(TypedDict):
    """A recurrent state: the arguments of vLLM's `MambaStateShapeCalculator`, and dtypes."""

    kind: str
    sizes: dict[str, int]
    dtypes: list[str]


class Layer(TypedDict):
    """One decoder layer."""

    caches: list[Cache]
    state: State | None


@dataclass(frozen=True)
class Case:
    """A model, flags and pools."""

    name: str
    layers: tuple[Layer, ...]
    question: KvQuestion
    pools: tuple[int, ...]
    """Bytes, one for each pipeline stage."""
    limit: int = 1 << 20


def cache(kind: str, heads: int = 1, key: int = 128, value: int | None = None, **more: int) -> Cache:
    """A cache; values are as wide as keys where nothing is said."""
    width = key if value is None else value
    return {
        "kind": kind,
        "heads": heads,
        "key": key,
        "value": width,
        "window": more.get("window"),
        "ratio": more.get("ratio", 1),
    }


def layer(*caches: Cache, state: State | None = None) -> Layer:
    """A layer."""
    return {"caches": list(caches), "state": state}


def gdn(key_heads: int, value_heads: int, width: int = 128) -> State:
    """Gated delta net with a float32 recurrence."""
    sizes = {"num_k_heads": key_heads, "num_v_heads": value_heads, "head_k_dim": width, "head_v_dim": width}
    return {"kind": "gated_delta_net", "sizes": sizes | {"conv_kernel_size": 4}, "dtypes": ["bfloat16", "float32"]}


def mamba2(heads: int, groups: int, state_size: int = 128, head_dim: int = 64) -> State:
    """Mamba-2."""
    sizes = {"num_heads": heads, "head_dim": head_dim, "intermediate_size": heads * head_dim, "n_groups": groups}
    more = {"state_size": state_size, "conv_kernel": 4}
    return {"kind": "mamba2", "sizes": sizes | more, "dtypes": ["bfloat16", "float32"]}


def mamba1(width: int, state_size: int = 16) -> State:
    """Mamba-1."""
    sizes = {"intermediate_size": width, "state_size": state_size, "conv_kernel": 4}
    return {"kind": "mamba1", "sizes": sizes, "dtypes": ["bfloat16", "bfloat16"]}


def kda(heads: int, width: int = 128) -> State:
    """Kimi delta attention."""
    sizes = {"num_heads": heads, "head_dim": width, "conv_kernel_size": 4}
    return {"kind": "kda", "sizes": sizes, "dtypes": ["bfloat16", "float32"]}


def short_conv(width: int) -> State:
    """A short convolution of kernel 4."""
    return {"kind": "short_conv", "sizes": {"intermediate_size": width, "conv_kernel": 4}, "dtypes": ["bfloat16"]}


def linear(heads: int, width: int = 128) -> State:
    """Lightning attention."""
    return {"kind": "linear_attention", "sizes": {"num_heads": heads, "head_dim": width}, "dtypes": ["float32"]}


def structure(case: Case) -> ModelStructure:
    """The layers as `analyze` hands them on."""
    alike: dict[str, list[int]] = {}
    for number, one in enumerate(case.layers):
        alike.setdefault(repr(one), []).append(number)
    groups = tuple(_group(tuple(numbers), case.layers[numbers[0]]) for numbers in alike.values())
    return ModelStructure(groups=groups, embedding_bytes=0, head_bytes=0, from_headers=False)


def _group(numbers: tuple[int, ...], one: Layer) -> LayerGroup:
    return LayerGroup(
        layers=numbers,
        mixer="full_attention",
        feed_forward="dense",
        caches=tuple(_entry(item) for item in one["caches"]),
        states=_states(one["state"]),
        weights=WeightShares(),
    )


KINDS = {
    "full": ("full_attention", "cache"), "sliding": ("sliding_attention", "cache"), "mla": ("mla", "cache"),
    "chunked": ("chunked_attention", "cache"), "indexer": ("indexer", "uint8"), "v4_window": ("mla", "cache"),
    "v4_entry": ("mla", "cache"), "v4_index": ("indexer", "uint8"), "v4_state": ("mla", "float32"),
}  # fmt: skip


def _entry(item: Cache) -> CacheEntry:
    kind, dtype = KINDS[item["kind"]]
    latent = kind in ("mla", "indexer")
    return CacheEntry.model_validate(
        {
            "kind": kind,
            "kv_heads": 1 if latent else item["heads"],
            "key_dim": item["key"],
            "value_dim": 0 if latent else item["value"],
            "window": item["window"],
            "dtype": dtype,
            "tokens_per_entry": item["ratio"] if item["kind"] in ("v4_entry", "v4_index") else 1,
        }
    )


def _states(state: State | None) -> tuple[StateEntry, ...]:
    if state is None:
        return ()
    names = ["ssm"] if state["kind"] == "linear_attention" else ["conv", "ssm"]
    return tuple(
        StateEntry(name=name, dtype=dtype, **parts)
        for name, dtype, parts in zip(names, state["dtypes"], _elements(state), strict=False)
    )


def _elements(state: State) -> list[dict[str, int]]:
    size = state["sizes"]
    match state["kind"]:
        case "gated_delta_net":
            keys, values = size["num_k_heads"] * size["head_k_dim"], size["num_v_heads"] * size["head_v_dim"]
            return [{"elements": 3 * (2 * keys + values)}, {"elements": values * size["head_k_dim"]}]
        case "mamba2":
            conv = {"elements": 3 * size["intermediate_size"], "groups": size["n_groups"]}
            conv["elements_per_group"] = 3 * 2 * size["state_size"]
            return [conv, {"elements": size["num_heads"] * size["head_dim"] * size["state_size"]}]
        case "mamba1":
            width = size["intermediate_size"]
            return [{"elements": 3 * width}, {"elements": width * size["state_size"]}]
        case "kda":
            width = size["num_heads"] * size["head_dim"]
            return [{"elements": 9 * width}, {"elements": width * size["head_dim"]}]
        case "short_conv":
            return [{"elements": 3 * size["intermediate_size"]}]
        case _:
            return [{"elements": size["num_heads"] * size["head_dim"] ** 2}]


def request(case: Case) -> dict[str, object]:
    """The case as the worker takes it."""
    return {"layers": case.layers, "question": asdict(case.question), "pools": case.pools, "limit": case.limit}


def _models() -> dict[str, tuple[Layer, ...]]:
    """Public models by what their layers keep: the kinds of structures that vLLM 0.32 serves."""
    full, window = cache("full", 8), cache("sliding", 8, window=1024)
    gemma4 = [layer(cache("sliding", 16, 256, window=1024))] * 5 + [layer(cache("full", 4, 512))]
    gpt = [layer(cache("sliding", 8, 64, window=128)), layer(cache("full", 8, 64))]
    mimo = [layer(cache("full", 4, 192, 128))] + [layer(cache("sliding", 8, 192, 128, window=128))] * 5
    latent, index = cache("mla", key=576), cache("indexer", key=132)
    v4_entry = [cache("v4_window", key=512, window=128), cache("v4_entry", key=512, ratio=4)]
    v4_index = [cache("v4_state", key=2048, window=8, ratio=4), cache("v4_index", key=132, ratio=4)]
    v4_four = layer(*v4_entry, *v4_index, cache("v4_state", key=512, window=8, ratio=4))
    v4_many = layer(
        cache("v4_window", key=512, window=128),
        cache("v4_entry", key=512, ratio=128),
        cache("v4_state", key=1024, window=128, ratio=128),
    )
    v4_plain = layer(cache("v4_window", key=512, window=128))
    delta = layer(state=gdn(16, 48))
    return {
        "llama-8b": (layer(full),) * 32,
        "one-kv-head": (layer(cache("full", 1)),) * 12,
        "deepseek-v2": (layer(latent),) * 27,
        "deepseek-v3.2": (layer(latent, index),) * 61,
        "glm-5-shared-indexer": (layer(latent, index), layer(latent), layer(latent), layer(latent)) * 5,
        "gemma-2": (layer(window), layer(full)) * 21,
        "gemma-3-27b": tuple(([layer(cache("sliding", 16, window=1024))] * 5 + [layer(cache("full", 16))]) * 10)
        + (layer(cache("sliding", 16, window=1024)),) * 2,
        "gemma-4-31b": tuple(gemma4 * 10),
        "gemma-4-shared-kv": (*gemma4 * 3, *[layer()] * 6),
        "gpt-oss-20b": tuple(gpt * 12),
        "gpt-oss-with-a-draft": (*gpt * 12, layer(cache("full", 8, 64))),
        "cohere-2": tuple(([layer(cache("sliding", 8, window=4096))] * 3 + [layer(full)]) * 10),
        "all-slide": (layer(window),) * 24,
        "two-windows": tuple(([layer(window)] * 2 + [layer(cache("sliding", 8, window=512)), layer(full)]) * 6),
        "mimo-v2": tuple(mimo * 8),
        "uneven-pages": tuple([layer(cache("full", 3, 96)), *[layer(cache("sliding", 8, 128, window=512))] * 3] * 4),
        "llama-4": tuple(([layer(cache("chunked", 8, window=8192))] * 3 + [layer(full)]) * 12),
        "nemotron-nas": (layer(full), layer(cache("full", 4)), layer(), layer(cache("full", 2, 64))) * 8,
        "qwen3.5-27b": tuple(([delta] * 3 + [layer(cache("full", 4, 256))]) * 16),
        "nemotron-h": tuple(([layer(state=mamba2(128, 8))] * 6 + [layer(full), layer(), layer()]) * 4),
        "mamba2-odd-groups": tuple(([layer(state=mamba2(64, 1))] * 3 + [layer(cache("full", 2))]) * 4),
        "falcon-h1": (layer(full, state=mamba2(32, 1, 256)),) * 18,
        "jamba": tuple(([layer(state=mamba1(8192))] * 7 + [layer(full)]) * 4),
        "kimi-linear": tuple(([layer(state=kda(32))] * 3 + [layer(latent)]) * 6),
        "lfm2": tuple(([layer(state=short_conv(2048))] * 2 + [layer(cache("full", 8, 64))]) * 5),
        "minimax-01": tuple(([layer(state=linear(64))] * 7 + [layer(full)]) * 4),
        "mamba2": (layer(state=mamba2(80, 1)),) * 24,
        "states-and-windows": tuple(([layer(state=gdn(8, 16))] * 2 + [layer(window), layer(full)]) * 5),
        "mla-beside-windows": (*[layer(latent)] * 8, *[layer(cache("sliding", 4, 96, window=512))] * 3),
        "deepseek-v4": (v4_plain, v4_plain, *[v4_four, v4_many] * 10, v4_four),
        "deepseek-v4-even": (*[v4_four, v4_many] * 8,),
    }


MODELS = _models()


def _layouts(name: str, layers: tuple[Layer, ...]) -> list[KvQuestion]:
    plain = KvQuestion(max_model_len=32_768)
    found = [
        plain,
        replace(plain, tensor_parallel=2, kv_cache_dtype="fp8"),
        replace(plain, tensor_parallel=8, max_model_len=131_072, max_num_batched_tokens=2048),
        replace(plain, pipeline_parallel=2, max_model_len=5000, prefix_caching=False),
        replace(plain, pipeline_parallel=3, tensor_parallel=4, async_scheduling=False),
        replace(plain, speculative_tokens=3, multi_module_predictor=True, max_model_len=777),
        replace(plain, hybrid_manager=False),
        replace(plain, model_dtype="float32", block_size=32),
        replace(plain, kv_cache_dtype="fp8_per_token_head", tensor_parallel=2),
        replace(plain, device="cpu", max_num_batched_tokens=2048),
        replace(plain, decode_context_parallel=4, max_model_len=10_001),
    ]
    latents = {item["kind"] for one in layers for item in one["caches"]} & {"mla", "indexer"}
    if _has_mamba1(layers):
        found = [one for one in found if not one.speculative_tokens]
    if latents:
        found.append(replace(plain, kv_cache_dtype="fp8_ds_mla"))
    if name.startswith("deepseek-v4"):
        found = [
            one for one in found if one.device == "cuda" and one.block_size is None and one.model_dtype == "bfloat16"
        ]
        found = [one for one in found if one.kv_cache_dtype in ("auto", "fp8", "fp8_ds_mla")]
    return found


def model_cases() -> list[Case]:
    """Every model under every set of flags that it knows."""
    return [
        Case(f"{name} {number}", layers, question, _pools(question, number))
        for name, layers in MODELS.items()
        for number, question in enumerate(_layouts(name, layers))
    ]


def _pools(question: KvQuestion, seed: int) -> tuple[int, ...]:
    dice = random.Random(seed)
    return tuple(dice.randrange(8 * GIB, 64 * GIB) for _ in range(question.pipeline_parallel))


def random_cases(count: int, seed: int) -> list[Case]:
    """Models that nobody made, and flags nobody asked for; always the same for a seed."""
    dice = random.Random(seed)
    return [_random_case(dice, number) for number in range(count)]


def _random_case(dice: random.Random, number: int) -> Case:
    states: list[State] = [gdn(16, 32, 64), mamba2(64, dice.choice((1, 8))), mamba1(4096), kda(16), short_conv(1024)]
    state = dice.choice(states)
    pool = [_random_layer(dice, state) for _ in range(dice.randint(1, 3))]
    pattern = [dice.choice(pool) for _ in range(dice.randint(1, 6))]
    layers = tuple(pattern * dice.randint(1, 6)) + tuple(dice.choice(pool) for _ in range(dice.randint(0, 3)))
    if all(one == layer() for one in layers):
        layers = (*layers, layer(cache("full", 8)))
    stages = dice.choice([size for size in (1, 1, 1, 2, 3) if size <= len(layers)])
    on_cpu = dice.random() < 0.3
    question = KvQuestion(
        max_model_len=dice.randint(1, 300_000),
        max_num_batched_tokens=dice.choice((512, 2048, 8192, 16_384)),
        tensor_parallel=dice.choice((1, 1, 2, 4, 8)),
        pipeline_parallel=stages,
        kv_cache_dtype=dice.choice(("auto", "auto", "fp8", "float32", "auto" if on_cpu else "int8_per_token_head")),
        block_size=dice.choice((None, None, 16, 32, 64)),
        prefix_caching=dice.random() < 0.7,
        hybrid_manager=dice.random() < 0.9,
        speculative_tokens=0 if _has_mamba1(layers) else dice.choice((0, 0, 1, 4)),
        multi_module_predictor=dice.random() < 0.3,
        async_scheduling=dice.random() < 0.7,
        device="cpu" if on_cpu else "cuda",
    )
    pools = tuple(dice.randrange(GIB, 90 * GIB) for _ in range(stages))
    return Case(f"random {number}", layers, question, pools)


def _has_mamba1(layers: tuple[Layer, ...]) -> bool:
    """Whether there are Mamba-1 layers: speculation does not widen them, and a structure does not tell them apart."""
    return any(one["state"] is not None and one["state"]["kind"] == "mamba1" for one in layers)


def _random_layer(dice: random.Random, state: State) -> Layer:
    kind = dice.choice(("full", "full", "sliding", "sliding", "chunked", "mla", "state", "both", "none"))
    heads, key = dice.choice((1, 2, 4, 8)), dice.choice((64, 96, 128, 256))
    value = dice.choice((key, key, key, 64))
    window = dice.choice((128, 512, 1024, 4096))
    match kind:
        case "mla":
            return layer(cache("mla", key=dice.choice((576, 320))))
        case "state":
            return layer(state=state)
        case "both":
            return layer(cache("full", heads, key), state=state)
        case "none":
            return layer()
        case "full":
            return layer(cache("full", heads, key, value))
        case _:
            return layer(cache(kind, heads, key, key if kind == "chunked" else value, window=window))
