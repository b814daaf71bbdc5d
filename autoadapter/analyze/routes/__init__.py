"""Will it run on the target vLLM, and by which route: predicted from names and headers, proved later by `test`."""

from autoadapter.analyze.routes.judge import judge
from autoadapter.analyze.routes.subject import ModelImpl, Target, Traits

__all__ = ["ModelImpl", "Target", "Traits", "judge"]
