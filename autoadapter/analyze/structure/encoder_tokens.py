"""Prompt tokens of the largest image or clip that a processor makes by default.

Sources: transformers 5.19 processors, and vLLM 0.32 `model_executor/models/` (`get_max_image_tokens` and the like).
"""

from collections.abc import Callable
from typing import Literal

from pydantic import JsonValue

from autoadapter.analyze.config import Config
from autoadapter.analyze.reading import Evidence
from autoadapter.analyze.structure.soft import real, whole

Tokens = tuple[int | None, str]
PROCESSOR_FILES = ("preprocessor_config.json", "processor_config.json")
SECONDS = 30
"""Whisper's window."""
LFM2_MARKS = 3
"""Tokens around all tiles: begin, end and the thumbnail's own; each tile brings one more."""


def processor_config(evidence: Evidence) -> Config:
    """What the processor's files say of images, as one config; empty without them."""
    data: dict[str, JsonValue] = {}
    for name in reversed(PROCESSOR_FILES):
        document = evidence.json(name)
        inner = document.get("image_processor")
        data |= document | (inner if isinstance(inner, dict) else {})
    return Config(data, PROCESSOR_FILES[0], PROCESSOR_FILES[0])


def item_tokens(evidence: Evidence, modality: Literal["image", "audio"], config: Config | None) -> Tokens:
    """Tokens of one item, and how they follow.

    Args:
        evidence: the model.
        modality: what the tower takes in.
        config: the tower's.
    """
    if config is None:
        return None, "the config does not describe the tower"
    if modality == "audio":
        return _sound(evidence, config)
    families = (evidence.root.text("model_type") or "", config.text("model_type") or "")
    for beginnings, reader in READERS:
        if any(family.startswith(beginnings) for family in families):
            return reader(evidence, config)
    return None, "how this family turns an image into tokens is not known"


def _stated(evidence: Evidence, config: Config) -> Tokens:
    """Gemma: a fixed number an image."""
    keys = ("mm_tokens_per_image", "vision_soft_tokens_per_image", "image_seq_length")
    for holder in (evidence.root, config):
        if (count := whole(holder, *keys)) is not None:
            return count, holder.source(*keys)
    count = whole(config, "default_output_length")
    return count, config.source("default_output_length")


def _by_pixels(evidence: Evidence, config: Config) -> Tokens:
    """Qwen-VL and its kin: one token for each square of merged patches, up to the processor's most pixels."""
    processor = processor_config(evidence)
    pixels = whole(processor, "max_pixels", "size.max_pixels", "size.longest_edge")
    if pixels is None:
        return None, "preprocessor_config.json, which states the most pixels of an image, is not there"
    side = (whole(config, "patch_size") or 14) * (whole(config, "spatial_merge_size") or 2)
    return pixels // side**2, f"preprocessor_config.json: {pixels} pixels over {side} × {side} a token"


def _by_patches(evidence: Evidence, config: Config) -> Tokens:
    """Kimi: the processor limits the patches, and a kernel merges them."""
    processor = processor_config(evidence)
    keys = ("in_token_limit", "in_patch_limit", "media_proc_cfg.in_patch_limit")
    limit = whole(processor, *keys)
    if limit is None:
        return None, "preprocessor_config.json, which limits the patches of an image, is not there"
    kernel = config.integers("merge_kernel_size") or (2, 2)
    merged = max(1, kernel[0] * kernel[-1])
    return limit // merged, f"preprocessor_config.json: {limit} patches, {merged} a token"


def _by_rows(evidence: Evidence, config: Config) -> Tokens:
    """Pixtral and Mistral-3: a token for each merged patch and one at the end of each row."""
    edge = whole(processor_config(evidence), "size.longest_edge") or whole(config, "image_size")
    if not edge:
        return None, "the config states no image size"
    side = (whole(config, "patch_size") or 14) * (whole(evidence.root, "spatial_merge_size") or 1)
    rows = -(-edge // side)
    return rows * (rows + 1), f"{edge} pixels a side over {side} a token, and the ends of {rows} rows"


def _by_chunks(evidence: Evidence, config: Config) -> Tokens:
    """Llama 4: chunks of one size and a small picture of the whole."""
    image, patch = whole(config, "image_size") or 336, whole(config, "patch_size") or 14
    ratio = real(config, "pixel_shuffle_ratio") or 0.5
    each = round((image // patch) ** 2 * ratio**2)
    chunks = whole(processor_config(evidence), "max_patches")
    if chunks is None:
        return None, f"preprocessor_config.json, which limits the chunks of {each} tokens each, is not there"
    return (chunks + 1) * each, f"preprocessor_config.json: {chunks} chunks and the whole, {each} tokens each"


def _by_tiles(evidence: Evidence, _: Config) -> Tokens:
    """LFM2-VL: tiles of one size, and a thumbnail."""
    root = evidence.root
    tiles, most = whole(root, "max_tiles"), whole(root, "max_image_tokens")
    if tiles is None or most is None:
        return None, "the config states no tiles"
    factor = (whole(root, "encoder_patch_size") or 16) * (whole(root, "downsample_factor") or 2)
    each = ((whole(root, "tile_size") or 512) // factor) ** 2
    return tiles * (
        each + 1
    ) + most + LFM2_MARKS, f"{root.where}: {tiles} tiles of {each} tokens and a thumbnail of {most}"


def _square(_: Evidence, config: Config) -> Tokens:
    """LLaVA: every patch of the one size is a token."""
    image, patch = whole(config, "image_size"), whole(config, "patch_size")
    if not image or not patch:
        return None, "the config states no image size"
    return (image // patch) ** 2, f"{image} pixels a side, {patch} a patch"


def _dynamic(evidence: Evidence, config: Config) -> Tokens:
    """InternVL: up to `max_dynamic_patch` tiles and a thumbnail."""
    root = evidence.root
    image, patch = whole(config, "image_size") or 448, whole(config, "patch_size") or 14
    ratio = real(root, "downsample_ratio") or 0.5
    tiles = whole(root, "max_dynamic_patch") or whole(processor_config(evidence), "max_patches")
    each = round((image // patch) ** 2 * ratio**2)
    if not tiles:
        return None, f"nothing states how many tiles of {each} tokens an image may have"
    return (tiles + 1) * each, f"{tiles} tiles and a thumbnail, {each} tokens each"


def _sound(evidence: Evidence, config: Config) -> Tokens:
    root = evidence.root.text("model_type") or ""
    if root.startswith("gemma3n"):
        key = "audio_soft_tokens_per_image"
        return whole(evidence.root, key), evidence.root.source(key)
    positions = whole(config, "max_source_positions")
    merged = FRAMES.get(root)
    if positions is None or merged is None:
        return None, "how this family turns sound into tokens is not known"
    return positions // merged, f"{positions} positions for {SECONDS} seconds, {merged} a token; longer clips take more"


FRAMES = {"voxtral": 4, "qwen2_audio": 2, "whisper": 1, "ultravox": 8, "audioflamingo3": 2, "qwen2_5_omni": 2}
"""Families with Whisper's encoder → its positions that make one token."""
READERS: tuple[tuple[tuple[str, ...], Callable[[Evidence, Config], Tokens]], ...] = (
    (("gemma",), _stated),
    (("llama4",), _by_chunks),
    (("mistral3", "pixtral"), _by_rows),
    (("kimi", "moonvit"), _by_patches),
    (("lfm2_vl", "lfm2-vl"), _by_tiles),
    (("qwen", "exaone4_5", "glm4v", "keye", "paddleocr"), _by_pixels),
    (("internvl",), _dynamic),
    (("llava_next", "llava_onevision"), lambda *_: (None, "the number of tiles depends on the image's shape")),
    (("llava",), _square),
)
