"""From config and headers to layers: caches, states, operators and weights of each group of layers that are alike."""

from autoadapter.analyze.structure.build import build_structure
from autoadapter.analyze.structure.unknown import unknown_findings

__all__ = ["build_structure", "unknown_findings"]
