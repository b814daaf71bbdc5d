"""What every finding code means, and what to do about it."""

from autoadapter.findings.catalogue import Explanation, explain, explanations

__all__ = ["Explanation", "explain", "explanations"]
