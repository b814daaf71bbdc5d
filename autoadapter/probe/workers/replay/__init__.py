"""Computes a `DecoderSpec` in plain torch: the meaning of its fields."""
