"""What a decoder computes: the types that probing fits and model code is rendered from."""

from autoadapter.artifacts.decoder.attention import (
    Attention,
    GatedDeltaNet,
    LatentAttention,
    Mamba2,
    OutputGate,
    ShortConv,
)
from autoadapter.artifacts.decoder.feed_forward import Mlp, Moe, Opaque, Router, SharedExperts
from autoadapter.artifacts.decoder.layers import Branch, LayerKind, LayerPattern, LayerRule, Mixer
from autoadapter.artifacts.decoder.parts import Activation, Alibi, Norm, Rope, Window
from autoadapter.artifacts.decoder.spec import (
    DecoderSpec,
    Embedding,
    Evidence,
    Head,
    HeadTransform,
    Positions,
    WeightSource,
)
from autoadapter.artifacts.decoder.values import Form, Value

__all__ = [
    "Activation",
    "Alibi",
    "Attention",
    "Branch",
    "DecoderSpec",
    "Embedding",
    "Evidence",
    "Form",
    "GatedDeltaNet",
    "Head",
    "HeadTransform",
    "LatentAttention",
    "LayerKind",
    "LayerPattern",
    "LayerRule",
    "Mamba2",
    "Mixer",
    "Mlp",
    "Moe",
    "Norm",
    "Opaque",
    "OutputGate",
    "Positions",
    "Rope",
    "Router",
    "SharedExperts",
    "ShortConv",
    "Value",
    "WeightSource",
    "Window",
]
