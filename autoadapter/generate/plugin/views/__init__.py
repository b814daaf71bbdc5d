"""What the rendered model file says: one view a class of it, decided here so that templates stay plain."""

from autoadapter.generate.plugin.views.attention import AttentionView
from autoadapter.generate.plugin.views.layer import LayerView
from autoadapter.generate.plugin.views.mlp import MlpView
from autoadapter.generate.plugin.views.model import ModelModule, class_prefix

__all__ = ["AttentionView", "LayerView", "MlpView", "ModelModule", "class_prefix"]
