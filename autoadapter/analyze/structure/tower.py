"""Parameters of a vision or audio tower from its config, with its projector.

Shapes: transformers 5.19 modelling files of the families that are named here; other towers are sized as plain ViTs.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

from autoadapter.analyze.config import Config
from autoadapter.analyze.kv_cache import HIDDEN
from autoadapter.analyze.reading import Evidence
from autoadapter.analyze.structure.soft import real, whole

WIDTH = ("vt_hidden_size", "embed_dim", "hidden_size", "d_model", "width")
DEPTH = ("vt_num_hidden_layers", "depth", "num_hidden_layers", "encoder_layers", "layers")
INNER = ("vt_intermediate_size", "intermediate_size", "encoder_ffn_dim")
HEADS = ("vt_num_attention_heads", "num_attention_heads", "num_heads", "encoder_attention_heads")
GATED = ("pixtral", "qwen2_5_vl", "qwen2_5_omni", "exaone4_5", "gemma4", "mistral3", "aimv2")
"""Beginnings of the model types whose blocks have a gate."""
MERGED = ("qwen", "exaone4_5", "kimi", "moonvit", "glm4v", "glm_ocr", "keye")
"""Beginnings of the model types that merge neighbouring patches and project those twice."""


SMALLEST_RATIO = 0.01


class Sizes(NamedTuple):
    """A tower's sizes, and those of what it feeds."""

    width: int
    depth: int
    inner: int
    patch: int
    text: int
    """Hidden size of the language model."""


def tower_parameters(evidence: Evidence, modality: Literal["image", "audio"], config: Config | None) -> int:
    """Weights of a tower; 0 where its config does not tell its sizes."""
    if config is None:
        return 0
    sizes = _sizes(config, evidence.language)
    if not sizes.width or not sizes.depth:
        return 0
    if modality == "audio":
        return _layers(config, sizes) + _sound(config, sizes)
    return _layers(config, sizes) + _patches(config, sizes) + _projector(evidence.root, config, sizes)


def _sizes(config: Config, language: Config) -> Sizes:
    width = whole(config, *WIDTH) or 0
    inner = whole(config, *INNER) or int((real(config, "mlp_ratio") or 4) * width)
    patch = whole(config, "patch_size") or 14
    return Sizes(width, whole(config, *DEPTH) or 0, inner, patch, whole(language, *HIDDEN) or 0)


def _family(config: Config, root: Config | None = None) -> str:
    return config.text("model_type") or (root.text("model_type") if root else None) or ""


def _layers(config: Config, sizes: Sizes) -> int:
    heads, groups = whole(config, *HEADS) or 1, whole(config, "num_key_value_heads")
    wide = whole(config, "qkv_hidden_size") or sizes.width
    narrow = wide * groups // heads if groups and groups < heads else wide
    attention = 2 * sizes.width * (wide + narrow) + 2 * (wide + narrow)
    gated = _family(config).startswith(GATED)
    block = sizes.width * sizes.inner * (3 if gated else 2) + sizes.inner + sizes.width
    return sizes.depth * (attention + block + 4 * sizes.width)


def _patches(config: Config, sizes: Sizes) -> int:
    channels = whole(config, "in_channels", "in_chans", "num_channels") or 3
    embedding = channels * sizes.patch**2 * (whole(config, "temporal_patch_size") or 1) * sizes.width
    return embedding + _positions(config, sizes) * sizes.width + 3 * sizes.width


def _positions(config: Config, sizes: Sizes) -> int:
    stated = whole(config, "num_position_embeddings", "num_patches")
    high, wide = whole(config, "init_pos_emb_height"), whole(config, "init_pos_emb_width")
    if stated is None and high and wide:
        return high * wide
    if _family(config).startswith(("gemma4",)):
        return 2 * (whole(config, "position_embedding_size") or 0)
    rotary = _family(config).startswith(("pixtral", "qwen2", "exaone4_5")) or config.found("rope_mode")
    image = whole(config, "image_size")
    return stated if stated is not None else 0 if rotary or not image else (image // sizes.patch) ** 2


def _projector(root: Config, config: Config, sizes: Sizes) -> int:
    family = _family(config, root)
    for beginnings, projector in PROJECTORS:
        if family.startswith(beginnings) or (root.text("model_type") or "").startswith(beginnings):
            return projector(root, config, sizes)
    return sizes.width * sizes.text + sizes.text**2


def _merger(_: Config, config: Config, sizes: Sizes) -> int:
    """Patches side by side, projected twice; once more for each layer of Qwen3-VL's DeepStack."""
    kernel = config.integers("merge_kernel_size")
    side = whole(config, "spatial_merge_size") or (kernel[0] if kernel else 2)
    merged = sizes.width * side**2
    times = 1 + len(config.integers("deepstack_visual_indexes") or ())
    return times * (merged * merged + merged * (whole(config, "out_hidden_size") or sizes.text) + merged)


def _single(_: Config, __: Config, sizes: Sizes) -> int:
    return sizes.width * sizes.text


def _mistral(root: Config, _: Config, sizes: Sizes) -> int:
    side = whole(root, "spatial_merge_size") or 2
    return side**2 * sizes.width**2 + sizes.width * sizes.text + sizes.text**2


def _shuffled(_: Config, config: Config, sizes: Sizes) -> int:
    """Llama 4: pixels shuffled into channels, two projections, then one to the text."""
    ratio = max(real(config, "pixel_shuffle_ratio") or 0.5, SMALLEST_RATIO)
    first = whole(config, "projector_input_dim") or 4096
    second = whole(config, "projector_output_dim") or first
    return int(sizes.width / ratio**2) * first + first * second + second * sizes.text


def _tiled(root: Config, _: Config, sizes: Sizes) -> int:
    factor, wide = whole(root, "downsample_factor") or 2, whole(root, "projector_hidden_size") or sizes.text
    return sizes.width * factor**2 * wide + wide * sizes.text


def _twice(root: Config, config: Config, sizes: Sizes) -> int:
    """MiniMax-M3: into the text's width in two steps, then merged with its neighbours in two more."""
    side = whole(config, "img_token_compression_config.spatial_merge_size") or 2
    wide = whole(root, "projector_hidden_size") or sizes.text
    return sizes.width * wide + 2 * wide * wide + side**2 * wide * wide


PROJECTORS: tuple[tuple[tuple[str, ...], Callable[[Config, Config, Sizes], int]], ...] = (
    (("gemma",), _single),
    (("mistral3",), _mistral),
    (("llama4",), _shuffled),
    (("minimax_m3",), _twice),
    (("lfm2_vl", "lfm2-vl"), _tiled),
    (MERGED, _merger),
)


def _sound(config: Config, sizes: Sizes) -> int:
    """Whisper's two convolutions and positions; a projection of four frames at a time, then one more (Voxtral)."""
    mel, positions = whole(config, "num_mel_bins") or 128, whole(config, "max_source_positions") or 1500
    convolutions = 3 * mel * sizes.width + 3 * sizes.width**2 + 2 * sizes.width
    return convolutions + positions * sizes.width + sizes.inner * sizes.text + sizes.text**2
