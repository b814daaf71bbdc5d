"""A tiny checkpoint of an architecture, and what probing says of it. Called by name in forks of the reference."""

import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from autoadapter.probe.workers.clone import class_default_config, make_clone
from autoadapter.probe.workers.fit.decoder import fit_decoder
from autoadapter.probe.workers.fit.fitted import UnexplainedError

MOST_CANDIDATES = 3


def clone(request: dict[str, Any]) -> dict[str, Any]:
    """Make the clone of `architecture` in `folder`.

    Result: `config` (what stands for the checkpoint's config.json), `causal`, `leaks_between_rows`, `parameters`.
    """
    config = class_default_config(request["architecture"])
    report = make_clone(config, Path(request["folder"]), seed=request["seed"])
    return {
        "config": config,
        "causal": report.causal,
        "leaks_between_rows": report.leaks_between_rows,
        "parameters": report.parameters,
    }


def edit(request: dict[str, Any]) -> dict[str, Any]:
    """Copy the clone in `folder` to `target`, with tensors changed.

    `scale`: name → factor; `swap_halves`: names whose first and second half of rows change places; `exchange`: name →
    name that it changes places with.
    """
    source, target = Path(request["folder"]), Path(request["target"])
    shutil.copytree(source, target)
    for path in target.glob("*.safetensors"):
        tensors = load_file(path)
        for name in tensors.keys() & request.get("scale", {}).keys():
            tensors[name] = tensors[name] * request["scale"][name]
        for name in tensors.keys() & set(request.get("swap_halves", ())):
            tensors[name] = torch.cat([*tensors[name].chunk(2)][::-1])
        for one, other in request.get("exchange", {}).items():
            if one in tensors:
                tensors[one], tensors[other] = tensors[other], tensors[one]
        save_file(tensors, path, {"format": "pt"})
    return {}


def fit(request: dict[str, Any]) -> dict[str, Any]:
    """Fit the clone in `folder`. Result: `spec` (JSON), or `refused` (why, with the best candidates)."""
    try:
        spec = fit_decoder(Path(request["folder"]))
    except UnexplainedError as error:
        best = ", ".join(f"{name} {off:.2g}" for name, off in error.candidates[:MOST_CANDIDATES])
        return {"refused": f"{error} (nearest: {best})" if best else str(error)}
    return {"spec": spec.model_dump(mode="json")}
