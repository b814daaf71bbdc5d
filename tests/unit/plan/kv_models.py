"""Structures of public models, from their config.json: what their layers keep, and nothing else."""

from collections.abc import Sequence

from autoadapter.artifacts import CacheEntry, LayerGroup, ModelStructure, StateEntry, WeightShares

GIB = 1 << 30


def full(heads: int, width: int) -> CacheEntry:
    """Keys and values of every token."""
    return CacheEntry(kind="full_attention", kv_heads=heads, key_dim=width, value_dim=width)


def sliding(heads: int, width: int, window: int) -> CacheEntry:
    """Keys and values of a window."""
    return CacheEntry(kind="sliding_attention", kv_heads=heads, key_dim=width, value_dim=width, window=window)


def chunked(heads: int, width: int, chunk: int) -> CacheEntry:
    """Keys and values of a chunk."""
    return CacheEntry(kind="chunked_attention", kv_heads=heads, key_dim=width, value_dim=width, window=chunk)


def latent(width: int = 576) -> CacheEntry:
    """Latent and rotary part of MLA."""
    return CacheEntry(kind="mla", kv_heads=1, key_dim=width, value_dim=0)


def delta_net(key_heads: int, value_heads: int, width: int = 128) -> tuple[StateEntry, ...]:
    """A gated delta net of kernel 4 with a float32 recurrence."""
    conv = 3 * width * (2 * key_heads + value_heads)
    recurrence = StateEntry(name="ssm", elements=value_heads * width * width, dtype="float32")
    return (StateEntry(name="conv", elements=conv, dtype="bfloat16"), recurrence)


def mamba2(heads: int, width: int, groups: int, state: int, dtype: str) -> tuple[StateEntry, ...]:
    """Mamba-2 of kernel 4."""
    conv = StateEntry(
        name="conv", elements=3 * heads * width, groups=groups, elements_per_group=6 * state, dtype="bfloat16"
    )
    return (conv, StateEntry(name="ssm", elements=heads * width * state, dtype=dtype))


def stack(*pattern: tuple[int, Sequence[CacheEntry], Sequence[StateEntry]], repeats: int = 1) -> ModelStructure:
    """Layers in turn: so many of a kind, then of the next, the whole of it repeated."""
    kinds = [(tuple(caches), tuple(states)) for count, caches, states in pattern for _ in range(count)] * repeats
    return ModelStructure(
        groups=tuple(
            LayerGroup(
                layers=tuple(number for number, other in enumerate(kinds) if other == kind),
                mixer="state" if kind[1] else "full_attention",
                feed_forward="dense",
                caches=kind[0],
                states=kind[1],
                weights=WeightShares(),
            )
            for kind in dict.fromkeys(kinds)
        ),
        embedding_bytes=0,
        head_bytes=0,
        from_headers=False,
    )


def alike(layers: int, *caches: CacheEntry) -> ModelStructure:
    """Layers that are all the same."""
    return stack((layers, caches, ()))


def gemma_3(layers: int, heads: int, width: int) -> ModelStructure:
    """Five layers that slide over 1024 tokens, then one that does not; the last round may be cut short."""
    kinds = [
        (1, [full(heads, width) if number % 6 == 5 else sliding(heads, width, 1024)], ()) for number in range(layers)
    ]
    return stack(*kinds)


MODELS = {
    "codellama-7b": alike(32, full(32, 128)),
    "deepseek-v2-lite": alike(27, latent()),
    "llama-70b": alike(80, full(8, 128)),
    "gemma-2-27b": stack((1, [sliding(16, 128, 4096)], ()), (1, [full(16, 128)], ()), repeats=23),
    "gemma-2-9b": stack((1, [sliding(8, 256, 4096)], ()), (1, [full(8, 256)], ()), repeats=21),
    "gemma-3-12b": gemma_3(48, 8, 256),
    "gemma-3-27b": gemma_3(62, 16, 128),
    "gemma-4-31b": stack((5, [sliding(16, 256, 1024)], ()), (1, [full(4, 512)], ()), repeats=10),
    "gemma-7b": alike(28, full(16, 256)),
    "llama-8b": alike(32, full(8, 128)),
    "phi-4": alike(40, full(10, 128)),
    "mistral-24b": alike(40, full(8, 128)),
    "mixtral-8x7b": alike(32, full(8, 128)),
    "kimi-vl-a3b": alike(27, latent()),
    "qwen2.5-72b": alike(80, full(8, 128)),
    "qwen2.5-7b": alike(28, full(4, 128)),
    "qwen3-8b": alike(36, full(8, 128)),
    "qwen3-14b": alike(40, full(8, 128)),
    "qwen3-30b-a3b": alike(48, full(4, 128)),
    "qwen3-235b-a22b": alike(94, full(4, 128)),
    "qwen3.5-27b": stack((3, (), delta_net(16, 48)), (1, [full(4, 256)], ()), repeats=16),
    "minimax-m2": alike(62, full(8, 128)),
    "llama-4-scout": stack((3, [chunked(8, 128, 8192)], ()), (1, [full(8, 128)], ()), repeats=12),
    "nemotron-nano-9b-v2": stack((27, (), mamba2(128, 80, 8, 128, "bfloat16")), (4, [full(8, 128)], ()), (25, (), ())),
}
