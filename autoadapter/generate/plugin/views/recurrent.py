"""Recurrent mixers in rendered code: thin classes around vLLM's own layers, and what vLLM asks of their model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autoadapter.artifacts.decoder import DecoderSpec, Mamba2, ShortConv
from autoadapter.errors import UnsupportedModelError
from autoadapter.generate.plugin.expressions import expression
from autoadapter.generate.plugin.views.attention import LAYERS

MAMBA = f"{LAYERS}.mamba"
UTILS = f"{MAMBA}.mamba_utils"
CALCULATORS = ("MambaStateCopyFuncCalculator", "MambaStateDtypeCalculator", "MambaStateShapeCalculator")
NO_NORM_EPS = "1e-5"


@dataclass(frozen=True)
class StateView:
    """Class methods that tell vLLM what a model keeps of each sequence."""

    word: str
    """`mamba2`, `short_conv`: the calculators' name for the state."""
    sizes: tuple[tuple[str, str], ...]
    dtypes: tuple[str, ...]


@dataclass(frozen=True)
class RecurrentView:
    """One class of recurrent mixers, which are the same in all layers."""

    class_name: str
    base: str
    kind: str
    arguments: tuple[tuple[str, str], ...]
    state: StateView
    imports: frozenset[tuple[str, str]]
    in_scale: str | None = None
    segments: tuple[tuple[str, str], ...] = ()
    """Width on a rank and multiplier of each part of the input projection."""
    whole_norm: str | None = None
    """The epsilon of a norm over the whole width, where vLLM's is in groups."""
    choices: tuple[str, ...] = ()
    uses_kind_names: bool = False
    helpers: tuple[Any, ...] = ()
    takes_positions: bool = False


def mamba2_view(mixers: Mapping[int, Mamba2], spec: DecoderSpec, class_name: str) -> RecurrentView:
    """The class for Mamba-2 blocks.

    Raises:
        UnsupportedModelError: vLLM's layer does not compute them.
    """
    mixer = _only(mixers)
    _refuse(mixer)
    grouped = mixer.norm is not None and mixer.norm.groups is not None
    whole = mixer.norm is not None and not grouped and mixer.n_groups.number > 1
    eps = expression(mixer.norm.eps) if mixer.norm else NO_NORM_EPS
    arguments = {
        "hidden_size": expression(spec.hidden_size),
        "ssm_state_size": expression(mixer.state_size),
        "conv_kernel_size": expression(mixer.conv_kernel),
        "intermediate_size": f"{expression(mixer.num_heads)} * {expression(mixer.head_dim)}",
        "use_conv_bias": str(mixer.conv_bias),
        "use_bias": str(mixer.proj_bias),
        "n_groups": expression(mixer.n_groups),
        "num_heads": expression(mixer.num_heads),
        "head_dim": expression(mixer.head_dim),
        "rms_norm_eps": eps,
        "activation": f'"{mixer.activation}"',
        "use_rms_norm": str(mixer.norm is not None),
        "model_config": "vllm_config.model_config",
        "cache_config": "vllm_config.cache_config",
        "quant_config": "vllm_config.quant_config",
    }
    names = ("intermediate_size", "n_groups", "num_heads", "head_dim")
    sizes = [(name, arguments[name]) for name in names]
    sizes += [("state_size", arguments["ssm_state_size"]), ("conv_kernel", arguments["conv_kernel_size"])]
    mixin = {(f"{MAMBA}.mamba_mixer2", "MambaMixer2")}
    mixin |= {(f"{MAMBA}.mamba_mixer2", "Mixer2RMSNormGated")} if whole else set()
    return RecurrentView(
        class_name=class_name,
        base="MambaMixer2",
        kind="mamba2",
        arguments=tuple(arguments.items()),
        state=StateView("mamba2", tuple(sizes), ("mamba_cache_dtype", "mamba_ssm_cache_dtype")),
        imports=frozenset(mixin) | _state_imports(),
        in_scale=expression(mixer.in_scale) if mixer.in_scale else None,
        segments=_segments(mixer),
        whole_norm=eps if whole else None,
    )


def _refuse(mixer: Mamba2) -> None:
    if mixer.norm is not None and (mixer.norm_before_gate or mixer.norm.kind != "rms" or mixer.norm.weight != "plain"):
        raise UnsupportedModelError("vLLM's Mamba-2 layer gates before a plain RMS norm; this one does otherwise.")
    if mixer.dt_limit is not None and tuple(mixer.dt_limit) != (0.0, float("inf")):
        raise UnsupportedModelError(f"vLLM's Mamba-2 layer does not clamp time steps to {mixer.dt_limit}.")


def _segments(mixer: Mamba2) -> tuple[tuple[str, str], ...]:
    if not mixer.segment_scales:
        return ()
    inner, states = "self.tped_intermediate_size", "self.groups_ssm_state_size // self.tp_size"
    widths = (inner, inner, states, states, "self.tped_dt_size")
    return tuple((width, expression(scale)) for width, scale in zip(widths, mixer.segment_scales, strict=True))


def short_conv_view(mixers: Mapping[int, ShortConv], spec: DecoderSpec, class_name: str) -> RecurrentView:
    """The class for gated short convolutions.

    Raises:
        UnsupportedModelError: their settings have names that vLLM's layer does not read.
    """
    mixer = _only(mixers)
    if mixer.kernel.key != "conv_L_cache" or "conv_bias" not in spec.config_seen:
        raise UnsupportedModelError("vLLM's short convolution reads conv_L_cache and conv_bias of the config.")
    width = expression(spec.hidden_size)
    arguments = {
        "config": "config",
        "dim": width,
        "layer_idx": "extract_layer_index(prefix)",
        "model_config": "vllm_config.model_config",
        "cache_config": "vllm_config.cache_config",
        "quant_config": "vllm_config.quant_config",
    }
    sizes = (("intermediate_size", width), ("conv_kernel", expression(mixer.kernel)))
    own = {(f"{MAMBA}.short_conv", "ShortConv"), ("vllm.model_executor.models.utils", "extract_layer_index")}
    return RecurrentView(
        class_name=class_name,
        base="ShortConv",
        kind="short_conv",
        arguments=tuple(arguments.items()),
        state=StateView("short_conv", sizes, ("mamba_cache_dtype",)),
        imports=frozenset(own) | _state_imports(),
    )


def _state_imports() -> frozenset[tuple[str, str]]:
    names = {(UTILS, name) for name in (*CALCULATORS, "MambaStateCopyFunc")}
    return frozenset(names | {("torch", ""), ("vllm.model_executor.models.interfaces", "HasInnerState")})


def _only(mixers: Mapping[int, Any]) -> Any:
    first = next(iter(mixers.values()))
    if any(mixer != first for mixer in mixers.values()):
        raise UnsupportedModelError("Kinds of layers differ in their recurrent mixers.")
    return first
