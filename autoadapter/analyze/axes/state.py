"""Recurrent layers: Mamba, gated delta networks, KDA, short convolutions, and the state that a request holds.

Shapes: vLLM 0.32 `layers/mamba/mamba_utils.py:MambaStateShapeCalculator`. Convolution states are 16-bit; the recurrent
state follows `mamba_ssm_dtype`/`mamba_ssm_cache_dtype`, and for KDA is 32-bit.
"""

from typing import NamedTuple

from autoadapter.analyze.config import Config
from autoadapter.analyze.kv_cache import HIDDEN
from autoadapter.analyze.layers import PARALLEL, STATE, layer_count, layer_kinds
from autoadapter.analyze.reading import Evidence, Reading
from autoadapter.artifacts import Finding, Level
from autoadapter.artifacts.model_profile import StateTraits

CONV_BYTES = 2
WIDE = {"float32": 4, "bfloat16": 2, "float16": 2}


class _State(NamedTuple):
    """One layer's state: kind, elements of the convolution, elements of the recurrence, bytes of one of the latter."""

    kind: str
    conv: int
    recurrent: int
    recurrent_bytes: int


def read_state(evidence: Evidence) -> Reading:
    """State traits; None without recurrent layers."""
    config = evidence.language
    kinds = layer_kinds(config, layer_count(config))
    layers = sum(kind in (STATE, PARALLEL) for kind in kinds.kinds)
    if not layers:
        return Reading("state", None, {"": kinds.source})
    state = _delta_net(config) or _kda(config) or _short_conv(config) or _mamba2(config) or _mamba1(config)
    if state is None:
        traits = StateTraits(kind=evidence.model_type or "unknown", num_layers=layers)
        return Reading("state", traits, {"num_layers": kinds.source}, (_unknown(evidence),))
    size = layers * (state.conv * CONV_BYTES + state.recurrent * state.recurrent_bytes)
    traits = StateTraits(kind=state.kind, num_layers=layers, bytes_per_request=size)
    return Reading("state", traits, {"num_layers": kinds.source, "bytes_per_request": "computed from the config"})


def _recurrent_bytes(config: Config, default: int = 2) -> int:
    return WIDE.get(config.text("mamba_ssm_dtype", "mamba_ssm_cache_dtype") or "", default)


def _delta_net(config: Config) -> _State | None:
    key_heads, value_heads = config.integer("linear_num_key_heads"), config.integer("linear_num_value_heads")
    key, value = config.integer("linear_key_head_dim"), config.integer("linear_value_head_dim")
    if not (key_heads and value_heads and key and value):
        return None
    conv = (2 * key_heads * key + value_heads * value) * ((config.integer("linear_conv_kernel_dim") or 4) - 1)
    return _State("gated_delta_net", conv, value_heads * value * key, _recurrent_bytes(config))


def _kda(config: Config) -> _State | None:
    inner = config.child("linear_attn_config")
    heads, width = (inner.integer("num_heads"), inner.integer("head_dim")) if inner else (None, None)
    if inner is None or not heads or not width:
        return None
    conv = 3 * heads * width * ((inner.integer("short_conv_kernel_size") or 4) - 1)
    return _State("kda", conv, heads * width * width, _recurrent_bytes(config, default=4))


def _short_conv(config: Config) -> _State | None:
    length = config.integer("conv_L_cache")
    if length is None:
        return None
    return _State("short_conv", (config.integer("conv_dim", *HIDDEN) or 0) * (length - 1), 0, 0)


def _mamba2(config: Config) -> _State | None:
    heads = config.integer("mamba_num_heads", "mamba_n_heads", "n_mamba_heads")
    width = config.integer("mamba_head_dim", "mamba_d_head", "mamba_headdim")
    if not (heads or width) and config.text("model_type") == "mamba2":
        heads, width = config.integer("num_heads"), config.integer("head_dim")
    if not heads or not width:
        return None
    groups = config.integer("n_groups", "mamba_n_groups", "mamba_ngroups") or 1
    size = config.integer("ssm_state_size", "mamba_d_state", "state_size") or 128
    kernel = config.integer("conv_kernel", "mamba_d_conv") or 4
    conv = (heads * width + 2 * groups * size) * (kernel - 1)
    return _State("mamba2", conv, heads * width * size, _recurrent_bytes(config))


def _mamba1(config: Config) -> _State | None:
    size = config.integer("state_size", "mamba_d_state")
    if size is None:
        return None
    expand = config.number("expand", "mamba_expand") or 2
    inner = config.integer("d_inner") or int(expand * (config.integer(*HIDDEN) or 0))
    kernel = config.integer("conv_kernel", "mamba_d_conv") or 4
    return _State("mamba", inner * (kernel - 1), inner * size, _recurrent_bytes(config))


def _unknown(evidence: Evidence) -> Finding:
    message = "The model has recurrent layers of a kind whose state AutoAdapter cannot size."
    return Finding(code="state.unknown", level=Level.WARNING, message=message, source=evidence.language.where)
