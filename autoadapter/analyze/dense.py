"""Width and shape of the token-wise block, by the many names that configs have for them."""

from autoadapter.analyze.config import Config
from autoadapter.analyze.kv_cache import HIDDEN
from autoadapter.analyze.layers import NEMOTRON_H, layer_count
from autoadapter.once import once_each

WIDTH = (
    "dense_intermediate_size", "intermediate_size_mlp", "intermediate_size", "block_ff_dim", "n_inner", "ffn_dim",
    "ffn_hidden_size", "ffn_config.ffn_hidden_size", "feed_forward_length",
)  # fmt: skip
FOUR_TIMES = {"gpt2", "bloom", "gpt_neo", "gptj", "gpt_bigcode", "falcon", "mpt", "openai-gpt", "codegen"}
"""Families whose absent width means four times the hidden size."""
NOT_GATED = FOUR_TIMES | {
    "opt", "gpt_neox", "phi", "starcoder2", "nemotron", "nemotron_h", "persimmon", "bert", "roberta", "xlm-roberta",
    "xglm", "biogpt", "arcee", "jais2", "apertus", "nanochat", "electra", "xlm-roberta-xl",
}  # fmt: skip
"""Families with one up projection and no gate, for when there are no tensors to look at."""
HALVED = {"qwen", "recurrent_gemma"}
"""Families whose stated width is that of gate and up together."""
ROUNDED_TO = 256
"""Nemotron-NAS rounds two thirds of its multiple of the hidden size up to it (vLLM 0.32 `nemotron_nas.py`)."""


def is_gated(config: Config) -> bool:
    """Whether a gate stands beside the up projection, going by the family."""
    return (config.text("model_type") or "") not in NOT_GATED | set(NEMOTRON_H)


@once_each
def dense_width(config: Config) -> int | None:
    """Width of the block; the largest where it differs by layer; None where the config does not tell it."""
    by_block = [width for block in _blocks(config) if (width := _block_width(block, config))]
    stated = config.integer(*WIDTH)
    if stated is not None:
        return _adjusted(config, stated)
    hidden = config.integer(*HIDDEN)
    if by_block or hidden is None or config.text("model_type") not in FOUR_TIMES:
        return max(by_block, default=None)
    return int(hidden * (config.number("expansion_ratio", "ffn_hidden_size_ratio") or 4))


def layer_width(config: Config, layer: int) -> int:
    """Width of one layer's dense block; 0 where the config does not tell it."""
    blocks = _blocks(config)
    if layer < len(blocks) and (width := _block_width(blocks[layer], config)):
        return width
    listed = config.integers(*WIDTH)
    if listed:
        return listed[layer] if layer < len(listed) else listed[-1]
    if config.text("model_type") == "granitemoehybrid":
        return config.integer("shared_intermediate_size", "intermediate_size") or 0
    width = dense_width(config) or 0
    return 2 * width if _is_double(config, layer) else width


def _is_double(config: Config, layer: int) -> bool:
    """Gemma-4 widens the layers that read another layer's cache."""
    shared = config.integer("num_kv_shared_layers") or 0
    return config.flag("use_double_wide_mlp") is True and 0 < shared and layer >= layer_count(config) - shared


@once_each
def _blocks(config: Config) -> tuple[Config, ...]:
    """The token-wise part of each of Nemotron-NAS's blocks."""
    parts = (block.get("ffn") for block in config.objects("block_configs"))
    return tuple(Config(part if isinstance(part, dict) else {}, config.where, config.file) for part in parts)


def _block_width(block: Config, config: Config) -> int | None:
    own, multiple = block.integer("intermediate_size"), block.number("ffn_mult")
    if own or multiple is None:
        return own
    width = int(2 * multiple * (config.integer(*HIDDEN) or 0) / 3)
    return -(-width // ROUNDED_TO) * ROUNDED_TO


def _adjusted(config: Config, stated: int) -> int:
    """LFM2 takes two thirds of its width and rounds up (transformers 5.19 `Lfm2MLP`), unless told not to."""
    if config.text("model_type") in HALVED:
        return stated // 2
    if config.text("model_type") != "lfm2" or config.flag("block_auto_adjust_ff_dim") is False:
        return stated
    factor = config.number("block_ffn_dim_multiplier")
    multiple = config.integer("block_multiple_of") or 256
    width = int((1.0 if factor is None else factor) * int(2 * stated / 3))
    return -(-width // multiple) * multiple
