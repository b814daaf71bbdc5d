"""Stage one: what is this model, does it run on vLLM, by which route, and why. Reads headers and configs only."""

from autoadapter.analyze.code import copy_code, read_config
from autoadapter.analyze.digest import input_digest
from autoadapter.analyze.resolve import resolve_model
from autoadapter.analyze.stage import analyze

__all__ = ["analyze", "copy_code", "input_digest", "read_config", "resolve_model"]
