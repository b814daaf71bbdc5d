"""Tensor headers of every weight format, read without torch, without unpickling and without the weights."""

from autoadapter.analyze.headers.tensor import TensorInfo

__all__ = ["TensorInfo"]
