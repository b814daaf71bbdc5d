"""From config and headers to layers: caches, states, operators and weights of each group of layers that are alike."""

from autoadapter.analyze.structure.build import build_structure

__all__ = ["build_structure"]
