"""What a recurrent layer keeps of a request, however long the request is.

Shapes: vLLM 0.32 `model_executor/layers/mamba/mamba_utils.py:MambaStateShapeCalculator`, with each model's
`get_mamba_state_shape_from_config`. Types: `MambaStateDtypeCalculator`; convolutions as the model, recurrences too but
for KDA (32-bit), and what `mamba_ssm_cache_dtype` (Nemotron-H, else 32-bit) and `mamba_ssm_dtype` (Qwen3.5) say
(`models/config.py`).
"""

from typing import NamedTuple

from autoadapter.analyze import kv_cache
from autoadapter.analyze.config import Config
from autoadapter.analyze.layers import NEMOTRON_H
from autoadapter.artifacts import StateEntry

TYPES = {"float32": 4, "bfloat16": 2, "float16": 2}
"""A state's type → bytes of an element."""
LIGHTNING = ("minimax_text_01", "minimax", "minimax_m1", "bailing_moe_linear", "bailing_hybrid")
RECURRENT_GEMMA = "recurrent_gemma"


class LayerState(NamedTuple):
    """States of one recurrent layer, and what kind it is of."""

    kind: str
    """`gated_delta_net`, `kda`, `short_conv`, `mamba2`, `mamba`, `lightning`, `rg_lru`."""
    entries: tuple[StateEntry, ...]

    @property
    def bytes(self) -> int:
        """All of it, on one device."""
        return sum(map(state_bytes, self.entries))


def state_bytes(entry: StateEntry) -> int:
    """Bytes of a state on one device."""
    return (entry.elements + entry.groups * entry.elements_per_group) * TYPES[entry.dtype]


def layer_state(config: Config, served_dtype: str) -> LayerState | None:
    """States of every recurrent layer of a model (no model has two kinds); None where the config does not tell them.

    Args:
        config: the language model's.
        served_dtype: what the model computes in.
    """
    for reader in (_delta_net, _kda, _short_conv, _lightning, _rg_lru, _mamba2, _mamba1):
        state = reader(config, served_dtype)
        if state is not None:
            return state
    return None


def _recurrent_type(config: Config, served_dtype: str) -> str:
    model_type = config.text("model_type") or ""
    if model_type in NEMOTRON_H:
        said = config.text("mamba_ssm_cache_dtype") or "float32"
    else:
        said = config.text("mamba_ssm_dtype") or served_dtype
    return said if said in TYPES else served_dtype


def _entry(name: str, elements: int, dtype: str) -> StateEntry:
    return StateEntry(name=name, elements=elements, dtype=dtype)


def _delta_net(config: Config, served_dtype: str) -> LayerState | None:
    key_heads, value_heads = config.integer("linear_num_key_heads"), config.integer("linear_num_value_heads")
    key, value = config.integer("linear_key_head_dim"), config.integer("linear_value_head_dim")
    if not (key_heads and value_heads and key and value):
        return None
    width = 2 * key_heads * key + value_heads * value
    conv = width * ((config.integer("linear_conv_kernel_dim") or 4) - 1)
    recurrent = _entry("ssm", value_heads * value * key, _recurrent_type(config, served_dtype))
    return LayerState("gated_delta_net", (_entry("conv", conv, served_dtype), recurrent))


def kda_sizes(config: Config) -> tuple[int, int, int] | None:
    """Heads, their width and the convolution's length; None without Kimi's delta attention."""
    heads = config.integer("linear_attn_config.num_heads", "linear_num_heads")
    width = config.integer("linear_attn_config.head_dim", "linear_head_dim")
    kernel = config.integer("linear_attn_config.short_conv_kernel_size", "linear_conv_kernel_dim") or 4
    return (heads, width, kernel) if heads and width else None


def _kda(config: Config, served_dtype: str) -> LayerState | None:
    sizes = kda_sizes(config)
    if sizes is None:
        return None
    heads, width, kernel = sizes
    conv = 3 * heads * width * (kernel - 1)
    return LayerState("kda", (_entry("conv", conv, served_dtype), _entry("ssm", heads * width * width, "float32")))


def _short_conv(config: Config, served_dtype: str) -> LayerState | None:
    length = config.integer("conv_L_cache")
    if length is None:
        return None
    width = config.integer("conv_dim", *kv_cache.HIDDEN) or 0
    return LayerState("short_conv", (_entry("conv", width * max(0, length - 1), served_dtype),))


def _lightning(config: Config, served_dtype: str) -> LayerState | None:
    if config.text("model_type") not in LIGHTNING:
        return None
    width = kv_cache.head_dim(config)
    return LayerState("lightning", (_entry("ssm", kv_cache.attention_heads(config) * width * width, served_dtype),))


def _rg_lru(config: Config, served_dtype: str) -> LayerState | None:
    if config.text("model_type") != RECURRENT_GEMMA:
        return None
    width = config.integer("lru_width", *kv_cache.HIDDEN) or 0
    conv = width * ((config.integer("conv1d_width") or 4) - 1)
    return LayerState("rg_lru", (_entry("conv", conv, served_dtype), _entry("ssm", width, "float32")))


class Mamba2(NamedTuple):
    """Sizes of a Mamba-2 block."""

    inner: int
    heads: int
    head_dim: int
    groups: int
    state: int
    kernel: int


def _mamba2_width(config: Config, heads: int | None) -> int | None:
    """Width of a head: stated, else the inner width over the heads, as `auto` and an absent key mean it."""
    keys = ("mamba_head_dim", "mamba_d_head", "mamba_headdim", "hidden_size_per_head")
    stated = None if config.text(*keys) == "auto" else config.integer(*keys)
    expand = config.number("mamba_expand", "expand")
    if stated is not None or not heads or not expand or config.text("model_type") == "zamba":
        return stated
    inner = config.integer("mamba_d_ssm") or int(expand * (config.integer(*kv_cache.HIDDEN) or 0))
    return inner // heads


def mamba2_sizes(config: Config) -> Mamba2 | None:
    """Sizes of a model's Mamba-2 blocks; None where the config does not state their heads."""
    heads = config.integer("mamba_num_heads", "mamba_n_heads", "n_mamba_heads")
    width = _mamba2_width(config, heads)
    if not (heads or width) and config.text("model_type") == "mamba2":
        heads, width = config.integer("num_heads"), config.integer("head_dim")
    if not heads or not width:
        return None
    return Mamba2(
        inner=config.integer("mamba_d_ssm") or heads * width,
        heads=heads,
        head_dim=width,
        groups=config.integer("n_groups", "mamba_n_groups", "mamba_ngroups") or 1,
        state=config.integer("ssm_state_size", "mamba_d_state", "state_size") or 128,
        kernel=config.integer("conv_kernel", "mamba_d_conv") or 4,
    )


def _mamba2(config: Config, served_dtype: str) -> LayerState | None:
    sizes = mamba2_sizes(config)
    if sizes is None:
        return None
    past = sizes.kernel - 1
    conv = StateEntry(
        name="conv",
        elements=sizes.inner * past,
        groups=sizes.groups,
        elements_per_group=2 * sizes.state * past,
        dtype=served_dtype,
    )
    recurrent = sizes.heads * sizes.head_dim * sizes.state
    return LayerState("mamba2", (conv, _entry("ssm", recurrent, _recurrent_type(config, served_dtype))))


def mamba1_width(config: Config) -> int:
    """Inner width of a Mamba-1 block."""
    own = config.integer("d_inner")
    if own is None and config.text("model_type") in ("mamba", "falcon_mamba"):
        own = config.integer("intermediate_size")
    return own or int((config.number("expand", "mamba_expand") or 2) * (config.integer(*kv_cache.HIDDEN) or 0))


def _mamba1(config: Config, served_dtype: str) -> LayerState | None:
    size = config.integer("state_size", "mamba_d_state")
    if size is None:
        return None
    inner = mamba1_width(config)
    conv = inner * ((config.integer("conv_kernel", "mamba_d_conv") or 4) - 1)
    recurrent = _entry("ssm", inner * size, _recurrent_type(config, served_dtype))
    return LayerState("mamba", (_entry("conv", conv, served_dtype), recurrent))
