"""Renders a `DecoderSpec` as a vLLM plugin: a package with the model's code, its loading and its tests."""

from autoadapter.generate.plugin.render import PluginPackage, render_plugin

__all__ = ["PluginPackage", "render_plugin"]
