"""What follows the mixer in each layer: a dense block, experts or nothing.

Spellings follow the models' own code in vLLM 0.32 (`model_executor/models/`).
"""

from collections.abc import Callable, Sequence
from typing import Literal

from autoadapter.analyze.config import Config
from autoadapter.analyze.experts import expert_count
from autoadapter.analyze.layers import NEMOTRON_H, NONE, STATE, layer_kinds

FeedForward = Literal["dense", "moe", "none"]
NO_BLOCK: FeedForward = "none"
WITHOUT = ("mamba", "mamba2", "falcon_mamba")
"""Families of recurrent blocks alone."""
BARE_WHERE_RECURRENT = ("zamba", "zamba2")
"""Families whose purely recurrent layers have no block behind the mixer."""
WORDS: dict[str, FeedForward] = {"sparse": "moe", "moe": "moe", "dense": "dense", "mlp": "dense"}
LETTERS: dict[str, FeedForward] = {"-": "dense", "E": "moe"}
EVERY = ("decoder_sparse_step", "moe_layer_interval")
"""Every n-th layer has experts, counted from one."""


def feed_forward_kinds(config: Config, count: int) -> tuple[FeedForward, ...]:
    """`dense`, `moe` or `none` for each of `count` layers."""
    model_type = config.text("model_type") or ""
    if model_type in WITHOUT:
        return tuple(NO_BLOCK for _ in range(count))
    if model_type in NEMOTRON_H:
        return _one_block_a_layer(config, count)
    sparse = _sparse_layers(config, count) if expert_count(config)[0] > 1 else frozenset()
    found: list[FeedForward] = ["moe" if layer in sparse else "dense" for layer in range(count)]
    for layer in _bare(config, count):
        found[layer] = "none"
    return tuple(found)


def _one_block_a_layer(config: Config, count: int) -> tuple[FeedForward, ...]:
    """Nemotron-H: a layer is a mixer or a token-wise block, never both."""
    pattern = config.text("hybrid_override_pattern")
    names = config.texts("layers_block_type", "layer_types")
    blocks = config.objects("block_configs")
    found: list[FeedForward]
    if pattern is not None:
        found = [LETTERS.get(letter, "none") for letter in pattern if letter != "|"]
    elif names is not None:
        found = [WORDS.get(name, "none") for name in names]
    else:
        found = [WORDS.get(str(block.get("block_type")), "none") for block in blocks]
    return tuple((found + ["none"] * count)[:count])


def _bare(config: Config, count: int) -> list[int]:
    """Layers without a block: Nemotron-NAS removed some, Zamba never had them beside a recurrence."""
    bare = []
    for layer, block in enumerate(config.objects("block_configs")[:count]):
        ffn = block.get("ffn")
        if isinstance(ffn, dict) and ffn.get("no_op"):
            bare.append(layer)
    if config.text("model_type") in BARE_WHERE_RECURRENT:
        kinds = layer_kinds(config, count).kinds
        bare += [layer for layer, kind in enumerate(kinds) if kind in (STATE, NONE)]
    return bare


def _sparse_layers(config: Config, count: int) -> frozenset[int]:
    """Numbers of the layers that have experts."""
    for reader in READERS:
        found = reader(config, count)
        if found is not None:
            return frozenset(found)
    return frozenset(range(count))


def _marked(config: Config, count: int) -> Sequence[int] | None:
    """A list with a word or a flag for each layer."""
    words = config.texts("mlp_layer_types")
    if words is not None:
        return [layer for layer, word in enumerate(words[:count]) if WORDS.get(word) == "moe"]
    for key in ("moe_layer_freq", "is_moe_layer"):
        flags = config.get(key)
        if isinstance(flags, list):
            return [layer for layer, flag in enumerate(flags[:count]) if flag]
    return None


def _numbered(config: Config, _: int) -> Sequence[int] | None:
    """A list of the sparse layers: Llama 4's own, Step's as text."""
    listed = config.integers("moe_layers", "moe_layer_indices")
    if listed:
        return listed
    text = config.text("moe_layers_enum")
    return [int(part) for part in text.split(",") if part.strip().isdigit()] if text else None


def _interleaved(config: Config, count: int) -> Sequence[int] | None:
    """Every n-th: Llama 4 and Arctic, Jamba with its offset."""
    step = config.integer("interleave_moe_layer_step", "moe_layer_frequency")
    if step:
        return range(step - 1, count, step)
    period = config.integer("expert_layer_period")
    return range(config.integer("expert_layer_offset") or 0, count, period) if period else None


def _after_the_first(config: Config, count: int) -> Sequence[int] | None:
    """Dense layers first; then all, or every n-th; single ones may be named dense."""
    first = config.integer(
        "first_k_dense_replace", "num_dense_layers", "moe_layer_start_index", "moe_layer_num_skipped"
    )
    last = config.number("moe_layer_end_index")
    only_dense = set(config.integers("mlp_only_layers") or ())
    frequency = config.integer("moe_layer_freq") or 1
    every = config.integer(*EVERY) or 1
    end = count if last is None or last < 0 else min(count, int(last) + 1)
    return [
        layer
        for layer in range(first or 0, end)
        if layer % frequency == 0 and (layer + 1) % every == 0 and layer not in only_dense
    ]


READERS: tuple[Callable[[Config, int], Sequence[int] | None], ...] = (
    _marked,
    _numbered,
    _interleaved,
    _after_the_first,
)
