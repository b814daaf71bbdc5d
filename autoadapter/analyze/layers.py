"""The kind of every decoder layer, from whichever of a dozen spellings the config uses.

Spellings and their order follow vLLM 0.32 (`config/model.py:get_num_layers_by_block_type` and the models' own code).
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from autoadapter.analyze.config import Config
from autoadapter.artifacts.model_structure import Mixer
from autoadapter.errors import BrokenCheckpointError

FULL: Final[Mixer] = "full_attention"
SLIDING: Final[Mixer] = "sliding_attention"
CHUNKED: Final[Mixer] = "chunked_attention"
STATE: Final[Mixer] = "state"
NONE: Final[Mixer] = "none"
PARALLEL: Final[Mixer] = "hybrid"
"""Attention and a recurrent block side by side in one layer (Falcon-H1, Zamba2)."""
WORDS: dict[str, Mixer] = {
    "full_attention": FULL, "attention": FULL, "global": FULL, "full": FULL, "global_attention": FULL,
    "deepseek_sparse_attention": FULL, "compressed_sparse_attention": FULL, "heavily_compressed_attention": FULL,
    "sliding_attention": SLIDING, "sliding_window": SLIDING, "local": SLIDING, "swa": SLIDING,
    "hybrid_sliding": SLIDING,
    "chunked_attention": CHUNKED,
    "linear_attention": STATE, "mamba": STATE, "mamba2": STATE, "conv": STATE, "recurrent": STATE, "kda": STATE,
    "hybrid": PARALLEL,
    "mlp": NONE, "moe": NONE,
}  # fmt: skip
PATTERN_LETTERS: dict[str, Mixer] = {"M": STATE, "*": FULL, "-": NONE, "E": NONE}
"""Letters of Nemotron-H's `hybrid_override_pattern`: Mamba, attention, MLP, experts."""
NEMOTRON_H = ("nemotron_h", "nemotron_h_puzzle")
"""Families whose layers are a mixer or a token-wise block, never both."""
ALL_STATE = {"mamba", "mamba2", "falcon_mamba", "rwkv", "rwkv7", "xlstm", "minimax_text_01_linear"}
ALL_PARALLEL = {"falcon_h1"}
INKLING = ("inkling",)
"""Beginnings of the model types whose `hybrid` layers are full attention; their convolutions keep next to nothing."""

FROM_A_LAYER_ON = {"dots1"}
"""Families whose `max_window_layers` needs no switch."""
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_transformer_layers", "decoder_layers")
MOST_LAYERS = 2_000
"""The deepest models that were published have 1,000; what follows is computed layer by layer."""
LISTS = ("layer_types", "layers_block_type", "hybrid_override_pattern", "block_configs")


class LayerKinds(NamedTuple):
    """One word per layer, and the key that said so."""

    kinds: tuple[Mixer, ...]
    source: str


def layer_count(config: Config) -> int:
    """Decoder layers: as stated, else as many as the config lists, else the class's default; 0 when none says it.

    Raises:
        BrokenCheckpointError: a count that would only fill the memory.
    """
    stated = config.stated.integer(*LAYERS)
    listed = config.get(config.found(*LISTS) or "")
    if stated is None and not isinstance(listed, list | str):
        stated = config.integer(*LAYERS)
    count = stated if stated is not None else len(listed) if isinstance(listed, list | str) else 0
    if count > MOST_LAYERS:
        key = config.found(*LAYERS, *LISTS)
        raise BrokenCheckpointError(config.file, f"{key} is {count}, more layers than any model has")
    return count


def layer_kinds(config: Config, num_layers: int) -> LayerKinds:
    """Kind of each layer: `full_attention`, `sliding_attention`, `chunked_attention`, `state`, `hybrid` or `none`.

    What the file says comes before what its class leaves unsaid.
    """
    said = [reader for reader in (*READERS, _by_pattern) if reader(config.stated, num_layers) is not None]
    for reader in (*said, _by_pattern, _by_class, *READERS):
        found = reader(config, num_layers)
        if found is not None and len(found.kinds) >= num_layers:
            return LayerKinds(found.kinds[:num_layers], found.source)
    return _by_window(config, num_layers)


def _listed(config: Config, _: int) -> LayerKinds | None:
    names = config.texts("layer_types", "layers_block_type")
    if names is None:
        return None
    no_window = config.integer("sliding_window") is None and "sliding_window" in config.data
    return LayerKinds(_worded(config, names, no_window), config.source("layer_types", "layers_block_type"))


def _worded(config: Config, names: Sequence[str], no_window: bool) -> tuple[Mixer, ...]:
    kinds = tuple(WORDS.get(name, FULL) for name in names)
    if no_window:
        kinds = tuple(FULL if kind == SLIDING else kind for kind in kinds)
    if (config.text("model_type") or "").startswith(INKLING):
        kinds = tuple(FULL if kind == PARALLEL else kind for kind in kinds)
    return kinds


def _by_class(config: Config, num_layers: int) -> LayerKinds | None:
    """What the class makes of the layers where the config does not list them."""
    if config.defaults is None or not (names := config.defaults.kinds(num_layers)):
        return None
    no_window = not config.integer("sliding_window", "sliding_window_size")
    return LayerKinds(_worded(config, names, no_window), config.defaults.source)


def _pattern_letters(config: Config, _: int) -> LayerKinds | None:
    pattern = config.text("hybrid_override_pattern")
    if pattern is None:
        return None
    kinds = tuple(PATTERN_LETTERS.get(letter, FULL) for letter in pattern if letter != "|")
    return LayerKinds(kinds, config.source("hybrid_override_pattern"))


def _coded(config: Config, _: int) -> LayerKinds | None:
    """MiniMax codes 1 for full and 0 for linear; MiMo-V2 codes 1 for sliding and 0 for full."""
    for key, one, zero in (("attn_type_list", FULL, STATE), ("hybrid_layer_pattern", SLIDING, FULL)):
        codes = config.integers(key)
        if codes:
            return LayerKinds(tuple(one if code == 1 else zero for code in codes), config.source(key))
    return None


def _block_configs(config: Config, _: int) -> LayerKinds | None:
    """Nemotron-NAS removes attention from some layers; Nemotron-H Puzzle lists blocks."""
    blocks = config.objects("block_configs")
    if not blocks:
        return None
    kinds = []
    for block in blocks:
        attention = block.get("attention")
        word = block.get("block_type")
        absent = isinstance(attention, dict) and bool(attention.get("no_op") or attention.get("replace_with_linear"))
        kinds.append(WORDS.get(word, FULL) if isinstance(word, str) else NONE if absent else FULL)
    return LayerKinds(tuple(kinds), config.source("block_configs"))


def _indices(config: Config, num_layers: int) -> LayerKinds | None:
    """Lists of the layers that attend; Kimi counts them from one."""
    for key, first in (
        ("linear_attn_config.full_attn_layers", 1),
        ("attn_layer_indices", 0),
        ("full_attn_idxs", 0),
        ("hybrid_layer_ids", 0),
    ):
        indices = config.integers(key)
        if indices is not None:
            whole = {index - first for index in indices}
            attends = PARALLEL if key == "hybrid_layer_ids" else FULL
            kinds = tuple(attends if layer in whole else STATE for layer in range(num_layers))
            return LayerKinds(kinds, config.source(key))
    local = config.integers("local_layer_ids")
    if local is None:
        return None
    kinds = tuple(SLIDING if layer in local else FULL for layer in range(num_layers))
    return LayerKinds(kinds, config.source("local_layer_ids"))


def _every_nth_attends(config: Config, num_layers: int) -> LayerKinds | None:
    interval = config.integer("full_attention_interval")
    if interval:
        kinds = tuple(FULL if (layer + 1) % interval == 0 else STATE for layer in range(num_layers))
        return LayerKinds(kinds, config.source("full_attention_interval"))
    period, offset = config.integer("attn_layer_period"), config.integer("attn_layer_offset")
    if period:
        kinds = tuple(FULL if layer % period == (offset or 0) else STATE for layer in range(num_layers))
        return LayerKinds(kinds, config.source("attn_layer_period"))
    return None


def _groups_of_layers(config: Config, num_layers: int) -> LayerKinds | None:
    """Bailing: the last layer of each group attends, and so do those behind the last whole group."""
    size = config.integer("layer_group_size")
    if not size or not (config.text("model_type") or "").startswith("bailing"):
        return None
    whole = num_layers // size * size
    kinds = tuple(FULL if (layer + 1) % size == 0 or layer >= whole else STATE for layer in range(num_layers))
    return LayerKinds(kinds, config.source("layer_group_size"))


def _repeated(config: Config, num_layers: int) -> LayerKinds | None:
    """RecurrentGemma names the layers of one period."""
    names = config.texts("block_types", "_block_types")
    if not names:
        return None
    words = [SLIDING if WORDS.get(name) == FULL else WORDS.get(name, FULL) for name in names]
    kinds = tuple(words[layer % len(words)] for layer in range(num_layers))
    return LayerKinds(kinds, config.source("block_types", "_block_types"))


def _by_family(config: Config, num_layers: int) -> LayerKinds | None:
    model_type = config.text("model_type") or ""
    if model_type in ALL_STATE:
        return LayerKinds((STATE,) * num_layers, config.source("model_type"))
    if model_type in ALL_PARALLEL:
        return LayerKinds((PARALLEL,) * num_layers, config.source("model_type"))
    return None


def _nope_layers(config: Config, num_layers: int) -> LayerKinds | None:
    """Llama 4: layers with RoPE attend in chunks, the others to everything."""
    if config.integer("attention_chunk_size") is None or not (config.text("model_type") or "").startswith("llama4"):
        return None
    rotated = config.integers("no_rope_layers") or ()
    interval = config.integer("no_rope_layer_interval") or 4
    flags = rotated or tuple(int((layer + 1) % interval != 0) for layer in range(num_layers))
    return LayerKinds(tuple(CHUNKED if flag else FULL for flag in flags), config.source("attention_chunk_size"))


def _by_pattern(config: Config, num_layers: int) -> LayerKinds | None:
    """`sliding_window_pattern`: letters that repeat, or every how many layers one is full."""
    pattern = config.get("sliding_window_pattern")
    if not config.integer("sliding_window") or config.flag("use_sliding_window") is False or not pattern:
        return None
    if isinstance(pattern, str):
        kinds = tuple(FULL if pattern[layer % len(pattern)] == "G" else SLIDING for layer in range(num_layers))
    elif isinstance(pattern, int):
        kinds = tuple(FULL if (layer + 1) % pattern == 0 else SLIDING for layer in range(num_layers))
    else:
        return None
    return LayerKinds(kinds, config.source("sliding_window_pattern"))


def _by_window(config: Config, num_layers: int) -> LayerKinds:
    """No list of layers: what `sliding_window` and its switches make of them."""
    window, switch = config.integer("sliding_window"), config.flag("use_sliding_window")
    if not window or switch is False:
        unsaid = window and config.stated.flag("use_sliding_window") is None
        return LayerKinds((FULL,) * num_layers, config.source("use_sliding_window" if unsaid else "sliding_window"))
    counts = switch or config.text("model_type") in FROM_A_LAYER_ON
    first = (config.integer("max_window_layers") if counts else None) or 0
    kinds = tuple(SLIDING if layer >= first else FULL for layer in range(num_layers))
    return LayerKinds(kinds, config.source("sliding_window"))


READERS: tuple[Callable[[Config, int], LayerKinds | None], ...] = (
    _listed,
    _pattern_letters,
    _coded,
    _block_configs,
    _indices,
    _every_nth_attends,
    _groups_of_layers,
    _repeated,
    _by_family,
    _nope_layers,
)
