"""Renders what a plan needs beside the weights: server options, tokenizer adapter, tests, README."""

from autoadapter.generate.adapter import render_adapter

__all__ = ["render_adapter"]
