"""Tiny references of the hand-written specs, with weights that let no error hide."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn


def hand_reference(config: dict[str, Any]) -> tuple[nn.Module, Any]:
    """The library's own model of a config, with random weights, in float32 and eager."""
    import transformers

    settings = {name: value for name, value in config.items() if name not in ("architectures", "model_type")}
    made = transformers.AutoConfig.for_model(config["model_type"], **settings)
    made.architectures = config["architectures"]
    made._attn_implementation = "eager"
    torch.manual_seed(0)
    model = getattr(transformers, config["architectures"][0])(made).eval().float()
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")
    _randomise(model)
    return model, made


def hand_checkpoint(config: dict[str, Any], folder: Path) -> nn.Module:
    """The reference, saved below `folder`."""
    model, _ = hand_reference(config)
    model.save_pretrained(folder)
    return model


def hand_ids(config: dict[str, Any], tokens: int = 20) -> Tensor:
    """[1, tokens]."""
    return torch.randint(3, config["vocab_size"], (1, tokens), generator=torch.Generator().manual_seed(7))


def reference_logits(model: nn.Module, ids: Tensor) -> Tensor:
    """[tokens, vocabulary]."""
    with torch.no_grad():
        return model(input_ids=ids, use_cache=False).logits[0]


@torch.no_grad()
def _randomise(model: nn.Module) -> None:
    generator = torch.Generator().manual_seed(0)
    named = [*model.named_parameters(), *model.named_buffers()]
    for name, tensor in named:
        if not tensor.is_floating_point() or "freq" in name:
            continue
        noise = torch.randn(tensor.shape, generator=generator)
        if tensor.ndim >= 2:
            tensor.copy_(noise * (0.5 if tensor.shape[0] > 128 else tensor.shape[-1] ** -0.5))
        else:
            tensor.copy_(noise * 0.1 + (1 if bool((tensor == 1).all()) else 0))
