"""Quantization configs: where they are found, what they say, and where they disagree."""
