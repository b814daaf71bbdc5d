"""Towers beside the language model: what takes images and sound in."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from autoadapter.analyze.config import Config
from autoadapter.analyze.reading import Evidence
from autoadapter.analyze.structure.encoder_tokens import item_tokens
from autoadapter.analyze.structure.measured import Measured
from autoadapter.analyze.structure.tower import tower_parameters
from autoadapter.artifacts import Encoder

Modality = Literal["image", "audio"]
VISION = ("vision_config", "vision_tower_config", "vit_config", "vision_encoder", "visual", "img_processor")
AUDIO = ("audio_config", "audio_encoder_config", "speech_config", "sound_config", "audio_encoder")
WRAPPERS = ("thinker_config",)
"""Configs within the whole that hold the towers' ones (Qwen-Omni)."""
BYTES = 2
"""Towers are served in 16 bits; what a quantization config says of them is left out."""


class Tower(NamedTuple):
    """A tower that the config speaks of."""

    modality: Modality
    config: Config


def find_encoders(evidence: Evidence, measured: Measured | None) -> tuple[Encoder, ...]:
    """A row for each kind of input beside text.

    Args:
        evidence: the model.
        measured: what the headers have; None where there are none.
    """
    towers = {tower.modality: tower.config for tower in _towers(evidence.root)}
    stored = {modality: measured.places.get(modality, 0) if measured else 0 for modality in ("image", "audio")}
    rows = []
    for modality in ("image", "audio"):
        config = towers.get(modality)
        if config is None and not stored[modality]:
            continue
        size = stored[modality] if measured else BYTES * tower_parameters(evidence, modality, config)
        tokens, why = item_tokens(evidence, modality, config)
        model_type = (config.text("model_type") if config else None) or evidence.root.text("model_type") or "unknown"
        rows.append(
            Encoder(modality=modality, model_type=model_type, weight_bytes=size, tokens_per_item=tokens, why=why)
        )
    return tuple(rows)


def _towers(root: Config) -> Iterator[Tower]:
    holders = [root, *(inner for key in WRAPPERS if (inner := root.child(key)) is not None)]
    for modality, keys in (("image", VISION), ("audio", AUDIO)):
        found = (config for holder in holders for key in keys if (config := holder.child(key)) is not None)
        config = next((config for config in found if config.data), None)
        if config is not None:
            yield Tower("image" if modality == "image" else "audio", config)
