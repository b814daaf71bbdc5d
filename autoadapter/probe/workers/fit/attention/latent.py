"""Multi-head latent attention."""

from typing import Any


def is_latent(scene: Any, block: Any, core: Any) -> bool:
    return False


def fit_latent(scene: Any, block: Any, core: Any, scores: Any, output: Any) -> Any:
    raise NotImplementedError
