"""Fits a `DecoderSpec` to a reference implementation by running a tiny clone of it."""

from autoadapter.probe.run import probe

__all__ = ["probe"]
