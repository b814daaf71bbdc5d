"""From a checkpoint's config to a folder with a tiny checkpoint of the same architecture."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from autoadapter.probe.workers.clone.checks import is_causal, leaks_between_rows
from autoadapter.probe.workers.clone.keys import Stated
from autoadapter.probe.workers.clone.loading import (
    build,
    complete,
    copy_code,
    local_code,
    probe_ids,
    quiet,
    require_decoder,
)
from autoadapter.probe.workers.clone.shrink import shrink
from autoadapter.probe.workers.clone.spread import spread
from autoadapter.probe.workers.clone.weights import initialise, meet_bounds


@dataclass(frozen=True)
class CloneReport:
    """What was made."""

    parameters: int
    logits_std: float
    causal: bool
    """No token changes the logits of earlier ones."""
    leaks_between_rows: bool
    """A sequence's logits depend on what else is in its batch."""
    layers: tuple[int, ...]
    """For each layer of the clone the layer of the checkpoint that it stands for."""
    why: str
    """Why these layers."""
    seconds: float


def make_clone(config: dict[str, Any], folder: Path, *, code: Path | None = None, seed: int = 0) -> CloneReport:
    """Write a tiny checkpoint: every width small, every setting kept, weights under which every path matters.

    Args:
        config: the checkpoint's own config.json.
        folder: where to write; made if it is absent.
        code: folder of the checkpoint's remote code; only given when it is trusted.
        seed: of the weights.

    Raises:
        KeyError: the model type is unknown to transformers and there is no code.
        ValueError: the architecture's class refuses the small config.
    """
    began = time.monotonic()
    quiet()
    require_decoder(config)
    folder.mkdir(parents=True, exist_ok=True)
    if code is not None:
        copy_code(code, folder)
    config = {key: value for key, value in config.items() if key != "auto_map"} | local_code(config, code)
    small, depth = shrink(complete(config, code))
    torch.manual_seed(seed)
    model = build(folder, small, trust_remote_code=code is not None)
    fresh = initialise(model, seed)
    meet_bounds(model, Stated(small))
    ids = probe_ids(model.config)
    std = spread(model, ids, fresh)
    model.config.architectures = config.get("architectures") or [type(model).__name__]
    model.save_pretrained(folder)
    return CloneReport(
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        logits_std=std,
        causal=is_causal(model, ids),
        leaks_between_rows=leaks_between_rows(model, ids),
        layers=depth.sources,
        why=depth.why,
        seconds=time.monotonic() - began,
    )
