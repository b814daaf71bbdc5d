"""What must be installed to run a model: transformers, vLLM, and the packages that its own code imports."""

from autoadapter.analyze.dependencies.read import read_dependencies
from autoadapter.analyze.dependencies.table import KnownType, known_type, newest_transformers

__all__ = ["KnownType", "known_type", "newest_transformers", "read_dependencies"]
