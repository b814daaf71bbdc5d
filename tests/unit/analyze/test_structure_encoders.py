"""Towers: their weights from the config, and the tokens of the largest image or clip."""

import json
from pathlib import Path

import pytest
from pydantic import JsonValue

from autoadapter.artifacts import Encoder
from tests.unit.analyze.structure_files import (
    DEEPSEEK_V2_LITE,
    GEMMA3_12B,
    GEMMA4_26B,
    MISTRAL_SMALL_31,
    QWEN35_27B,
    Json,
    mistral,
    structure_of,
)

VIT: Json = {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16}


def wrapped(model_type: str, vision: Json, text: Json | None = None, **more: JsonValue) -> Json:
    said: Json = {"model_type": model_type, "architectures": ["ModelForConditionalGeneration"]}
    return said | {"text_config": text or mistral(), "vision_config": vision} | more


KIMI_VL = wrapped(
    "kimi_vl",
    {
        **VIT,
        "model_type": "moonvit",
        "patch_size": 14,
        "init_pos_emb_height": 64,
        "init_pos_emb_width": 64,
        "merge_kernel_size": [2, 2],
    },
    DEEPSEEK_V2_LITE | {"model_type": "deepseek_v3", "vocab_size": 163840},
)
LFM2_VL = wrapped(
    "lfm2_vl",
    {**VIT, "model_type": "siglip2_vision_model", "patch_size": 16, "num_patches": 256},
    mistral(model_type="lfm2", hidden_size=2048),
    downsample_factor=2, max_image_tokens=256, max_tiles=10, tile_size=512, encoder_patch_size=16,
    projector_hidden_size=2048,
)  # fmt: skip
LLAMA_4 = wrapped(
    "llama4",
    {
        "model_type": "llama4_vision_model", "hidden_size": 1408, "intermediate_size": 5632, "num_hidden_layers": 34,
        "num_attention_heads": 16, "image_size": 336, "patch_size": 14, "pixel_shuffle_ratio": 0.5,
        "projector_input_dim": 4096, "projector_output_dim": 4096,
    },
    mistral(hidden_size=5120),
)  # fmt: skip
VOXTRAL: Json = {
    "model_type": "voxtral", "architectures": ["VoxtralForConditionalGeneration"],
    "text_config": mistral(hidden_size=3072),
    "audio_config": {
        "model_type": "voxtral_encoder", "hidden_size": 1280, "intermediate_size": 5120, "num_hidden_layers": 32,
        "num_attention_heads": 20, "max_source_positions": 1500, "num_mel_bins": 128,
    },
}  # fmt: skip
PIXELS = {"preprocessor_config.json": json.dumps({"size": {"longest_edge": 16777216, "shortest_edge": 65536}})}


def tower(folder: Path, config: Json, files: dict[str, str] | None = None) -> Encoder:
    (found,) = structure_of(folder, config, dict(files or {})).encoders
    return found


SIZES: list[tuple[str, Json, str, float]] = [
    ("gemma-3-12b", GEMMA3_12B, "image", 421.3),
    ("gemma-4-26b", GEMMA4_26B, "image", 572.8),
    ("mistral-small-3.1", MISTRAL_SMALL_31, "image", 439.0),
    ("qwen3.5-27b", QWEN35_27B, "image", 460.7),
    ("kimi-vl", KIMI_VL, "image", 447.5),
    ("lfm2.5-vl-1.6b", LFM2_VL, "image", 426.4),
    ("voxtral-mini-3b", VOXTRAL, "audio", 662.1),
]
"""Model, kind of input, million weights of tower and projector."""


@pytest.mark.parametrize(("config", "modality", "millions"), [row[1:] for row in SIZES], ids=[row[0] for row in SIZES])
def test_weights_of_a_tower(tmp_path: Path, config: Json, modality: str, millions: float) -> None:
    found = tower(tmp_path, config)
    assert found.modality == modality
    assert found.weight_bytes / 2e6 == pytest.approx(millions, rel=0.002)


TOKENS: list[tuple[str, Json, dict[str, str], int | None, str]] = [
    ("gemma 3", GEMMA3_12B, {}, 256, "mm_tokens_per_image"),
    ("gemma 4", GEMMA4_26B, {}, 280, "vision_soft_tokens_per_image"),
    ("pixtral: 55 rows of 55 and their ends", MISTRAL_SMALL_31, {}, 3080, "1540 pixels a side"),
    ("qwen by pixels", QWEN35_27B, PIXELS, 16384, "16777216 pixels"),
    ("qwen without a processor", QWEN35_27B, {}, None, "preprocessor_config.json"),
    ("kimi", KIMI_VL, {"preprocessor_config.json": json.dumps({"in_token_limit": 4096})}, 1024, "4096 patches"),
    ("llama 4", LLAMA_4, {"preprocessor_config.json": json.dumps({"max_patches": 16})}, 2448, "16 chunks"),
    ("lfm2-vl", LFM2_VL, {}, 2829, "10 tiles of 256"),
    ("voxtral", VOXTRAL, {}, 375, "1500 positions"),
    ("llava", wrapped("llava", {**VIT, "image_size": 336, "patch_size": 14}), {}, 576, "336 pixels"),
    ("unknown", wrapped("never_heard_of", {**VIT, "image_size": 336, "patch_size": 14}), {}, None, "not known"),
    (
        "nested in the processor",
        QWEN35_27B,
        {"processor_config.json": json.dumps({"image_processor": {"max_pixels": 1003520}})},
        980,
        "1003520 pixels",
    ),
]


@pytest.mark.parametrize(
    ("config", "files", "tokens", "why"), [row[1:] for row in TOKENS], ids=[row[0] for row in TOKENS]
)
def test_tokens_of_an_item(tmp_path: Path, config: Json, files: dict[str, str], tokens: int | None, why: str) -> None:
    found = tower(tmp_path, config, files)
    assert found.tokens_per_item == tokens and why in found.why


def test_text_models_have_none(tmp_path: Path) -> None:
    assert structure_of(tmp_path, mistral()).encoders == ()
    assert structure_of(tmp_path / "empty", mistral(vision_config=None, audio_config={})).encoders == ()


@pytest.mark.parametrize("odd", ["big", {"height": 336}, -1, 0, 1e300, None, [1, "x"], True])
def test_odd_sizes_of_a_tower_are_no_error(tmp_path: Path, odd: JsonValue) -> None:
    for key in (
        "hidden_size",
        "image_size",
        "patch_size",
        "num_hidden_layers",
        "pixel_shuffle_ratio",
        "merge_kernel_size",
    ):
        for family in ("llama4", "kimi_vl", "pixtral"):
            found = tower(tmp_path, wrapped(family, {**VIT, key: odd}))
            assert found.weight_bytes >= 0
