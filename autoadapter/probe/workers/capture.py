"""What a block that could not be explained read, returned and holds: for whoever writes the next candidate."""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn
from torch.utils._pytree import tree_leaves

from autoadapter.probe.workers.clone import open_clone, probe_ids
from autoadapter.probe.workers.clone.loading import logits_of


def save_capture(folder: Path, block: str, file: Path, *, trust_remote_code: bool) -> None:
    """Run a clone once and save tensors of one module: `in.N`, `out.N` and its parameters by name.

    Args:
        folder: the clone.
        block: the module's path; of a block that is none, the innermost module around it.
        file: to write.
        trust_remote_code: the folder's own code may run.
    """
    model, config = open_clone(folder, trust_remote_code=trust_remote_code)
    module = _module(model, block)
    seen: dict[str, torch.Tensor] = {}

    def look(module: nn.Module, args: Any, kwargs: Any, result: Any) -> None:  # noqa: ARG001
        for side, tree in (("in", (args, kwargs)), ("out", result)):
            tensors = [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
            seen.update({f"{side}.{number}": tensor.detach().clone() for number, tensor in enumerate(tensors)})

    hook = module.register_forward_hook(look, with_kwargs=True)
    logits_of(model, probe_ids(config))
    hook.remove()
    held = {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
    save_file({name: tensor.contiguous() for name, tensor in (seen | held).items()}, file, {"block": block})


def _module(model: nn.Module, block: str) -> nn.Module:
    modules = dict(model.named_modules())
    path = block.split(" ")[0]
    while path not in modules:
        path = path.rpartition(".")[0]
    return modules[path]
