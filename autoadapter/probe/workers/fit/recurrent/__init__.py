"""Fits blocks that carry a state from token to token."""

from collections.abc import Callable
from typing import Any

from autoadapter.probe.workers.fit.fitted import Fitted
from autoadapter.probe.workers.fit.recurrent.mamba2 import fit_mamba2
from autoadapter.probe.workers.fit.recurrent.short_conv import fit_short_conv
from autoadapter.probe.workers.scene import Block, Scene

RECURRENT: tuple[Callable[[Scene, Block], Fitted[Any]], ...] = (fit_mamba2, fit_short_conv)
"""Tried in turn."""

__all__ = ["RECURRENT", "fit_mamba2", "fit_short_conv"]
