"""Fits a `DecoderSpec` to a reference implementation by running a tiny clone of it."""
