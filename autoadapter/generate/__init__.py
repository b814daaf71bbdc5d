"""Renders what a plan needs beside the weights: server options, model code, tokenizer adapter, tests, README."""

from autoadapter.generate.adapter import ModelCode, render_adapter

__all__ = ["ModelCode", "render_adapter"]
