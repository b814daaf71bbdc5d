"""What stands beside mixer and token-wise block: norms, Gemma's per-layer inputs, DeepSeek-V4's streams.

Shapes: the models' own code in vLLM 0.32 (`gemma3n.py`, `gemma4.py`, `models/deepseek_v4/nvidia/model.py`).
"""

from autoadapter.analyze.config import Config
from autoadapter.analyze.kv_cache import HIDDEN
from autoadapter.analyze.structure.parts import LayerShape, Matrix, Parts, Vector
from autoadapter.analyze.structure.token_wise import BIAS

FOUR_NORMS = ("gemma2", "gemma3", "gemma4", "glm4", "vaultgemma", "exaone4_5")
"""Beginnings of the model types with norms before and behind both blocks."""
ONE_NORM = {"phi", "cohere", "cohere2", "gptj", "codegen"}
"""Families whose blocks stand side by side behind one norm."""
TWO_ONLY = {"glm4_moe", "glm4_moe_lite", "glm4v_moe", "glm4v_moe_text"}


def extra_parts(config: Config, shape: LayerShape) -> Parts:
    """Norms and what single families add to every layer."""
    hidden, model_type = config.integer(*HIDDEN) or 0, config.text("model_type") or ""
    norms = 2 if "none" not in (shape.feed_forward, shape.mixer) and model_type not in ONE_NORM else 1
    if model_type.startswith(FOUR_NORMS) and model_type not in TWO_ONLY:
        norms = 4
    each = hidden * (2 if model_type in BIAS | {"mpt", "falcon", "cohere", "stablelm"} else 1)
    parts = Parts((), (Vector(norms * each),)).plus(_per_layer_inputs(config, hidden)).plus(_streams(config, hidden))
    return parts.plus(_alternating(config, hidden)) if model_type.startswith("gemma3n") else parts


def _per_layer_inputs(config: Config, hidden: int) -> Parts:
    width = config.integer("hidden_size_per_layer_input") or 0
    if not width:
        return Parts()
    matrices = (
        Matrix("per_layer_input_gate", "per_layer_input_gate", hidden, width, "replicated"),
        Matrix("per_layer_projection", "per_layer_projection", width, hidden, "replicated"),
    )
    return Parts(matrices, (Vector(hidden),))


def _alternating(config: Config, hidden: int) -> Parts:
    """Gemma-3n: AltUp's router and coefficients, and the low-rank residual LAuReL."""
    streams, low = config.integer("altup_num_inputs") or 4, config.integer("laurel_rank") or 64
    matrices = (
        Matrix("laurel.linear_left", "laurel.linear_left", hidden, low, "replicated"),
        Matrix("laurel.linear_right", "laurel.linear_right", low, hidden, "replicated"),
        Matrix("altup.modality_router", "altup.modality_router", hidden, streams, "replicated", quantizable=False),
    )
    return Parts(matrices, (Vector(streams**3 + streams**2 + 3 * hidden),))


def _streams(config: Config, hidden: int) -> Parts:
    """DeepSeek-V4 mixes `hc_mult` residual streams before attention and before the experts, in 32 bits."""
    streams = config.integer("hc_mult")
    if not streams:
        return Parts()
    mixed = (2 + streams) * streams
    return Parts((), (Vector(2 * (mixed * streams * hidden + mixed + 3), bits=32),))
