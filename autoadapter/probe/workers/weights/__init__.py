"""A checkpoint's tensors and a spec's parameters: which is which, found by values."""

from autoadapter.probe.workers.weights.cutting import cut, parameters_of
from autoadapter.probe.workers.weights.reading import checkpoint_tensors, read_parameters
from autoadapter.probe.workers.weights.sources import Reads, find_sources

__all__ = ["Reads", "checkpoint_tensors", "cut", "find_sources", "parameters_of", "read_parameters"]
