"""Weight sources are found by values, however a checkpoint packs its tensors, and lead back to the same values."""

from collections.abc import Callable
from pathlib import Path

import hand_specs
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from autoadapter.artifacts.decoder import WeightSource
from autoadapter.probe.workers.fit.fitted import UnexplainedError
from autoadapter.probe.workers.weights import find_sources, read_parameters

SPEC = hand_specs.qwen3_moe_spec()
"""Layers 0 and 2 are sparse: 8 experts of 64; 4 query heads and 2 key heads of 32; hidden 96."""


def parameters() -> dict[str, Tensor]:
    """Random ones for every parameter of the spec."""
    generator = torch.Generator().manual_seed(0)
    shapes = {"embed.weight": (160, 96), "head.weight": (160, 96), "norm.weight": (96,)}
    for layer in range(3):
        own = {"0.q_proj": (128, 96), "0.k_proj": (64, 96), "0.v_proj": (64, 96), "0.o_proj": (96, 128)}
        own |= {"0.input_norm": (96,), "1.input_norm": (96,), "0.q_norm": (32,), "0.k_norm": (32,)}
        if layer == 1:
            own |= {"1.gate_proj": (112, 96), "1.up_proj": (112, 96), "1.down_proj": (96, 112)}
        else:
            own |= {"1.router": (8, 96), "1.experts.gate_proj": (8, 64, 96), "1.experts.up_proj": (8, 64, 96)}
            own |= {"1.experts.down_proj": (8, 96, 64)}
        shapes |= {f"layers.{layer}.{name}.weight": shape for name, shape in own.items()}
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def packed(values: dict[str, Tensor], pack: Callable[[str, dict[str, Tensor]], dict[str, Tensor]]) -> dict[str, Tensor]:
    """A checkpoint: what `pack` makes of a layer's tensors, and the rest as it is."""
    result = {name: tensor for name, tensor in values.items() if not name.startswith("layers.")}
    for layer in range(3):
        prefix = f"layers.{layer}."
        own = {name.removeprefix(prefix): t for name, t in values.items() if name.startswith(prefix)}
        result |= {f"h.{layer}.{name}": tensor.contiguous() for name, tensor in pack(prefix, own).items()}
    return result


def fused_heads(prefix: str, own: dict[str, Tensor]) -> dict[str, Tensor]:
    """Per key head [2 queries, key, value]."""
    q, k, v = (own.pop(f"0.{name}_proj.weight") for name in "qkv")
    parts = [q.view(2, 64, 96), k.view(2, 32, 96), v.view(2, 32, 96)]
    return own | {"qkv": torch.cat(parts, dim=1).flatten(0, 1)}


def interleaved_experts(prefix: str, own: dict[str, Tensor]) -> dict[str, Tensor]:
    """All experts, [inputs, outputs], gate and up rows in turn."""
    if "1.router.weight" not in own:
        return own
    gate, up = (own.pop(f"1.experts.{name}_proj.weight") for name in ("gate", "up"))
    return own | {"gate_up": torch.stack([gate, up], dim=2).flatten(1, 2).transpose(1, 2)}


def expert_rows(prefix: str, own: dict[str, Tensor]) -> dict[str, Tensor]:
    """Experts' rows below each other, one projection the other way round."""
    if "1.router.weight" not in own:
        return own
    gate, down = own.pop("1.experts.gate_proj.weight"), own.pop("1.experts.down_proj.weight")
    return own | {"w1": gate.flatten(0, 1), "w2": down.transpose(1, 2).flatten(0, 1)}


def expert_tensors(prefix: str, own: dict[str, Tensor]) -> dict[str, Tensor]:
    """A tensor for each expert, gate and up stacked."""
    if "1.router.weight" not in own:
        return own
    gate, up = (own.pop(f"1.experts.{name}_proj.weight") for name in ("gate", "up"))
    return own | {f"experts.{e}.w12": torch.cat([gate[e], up[e]]) for e in range(8)}


CASES = {
    fused_heads: ("h.{layer}.qkv", {"groups": 2, "transposed": False, "experts": "none", "kinds": ()}),
    interleaved_experts: (
        "h.{layer}.gate_up",
        {"groups": 64, "transposed": True, "experts": "leading", "kinds": (0,)},
    ),
    expert_rows: ("h.{layer}.w2", {"groups": 1, "transposed": True, "experts": "rows", "kinds": (0,)}),
    expert_tensors: (
        "h.{layer}.experts.{expert}.w12",
        {"groups": 1, "transposed": False, "experts": "named", "kinds": (0,)},
    ),
}


@pytest.mark.parametrize("pack", CASES)
def test_packing_is_found(pack: Callable[[str, dict[str, Tensor]], dict[str, Tensor]], tmp_path: Path) -> None:
    """The packed tensor is described, and reading by the sources gives the parameters again."""
    values = parameters()
    save_file(packed(values, pack), tmp_path / "model.safetensors")
    sources, ignored = find_sources(SPEC, values, (), tmp_path, lambda name, tensor: True)
    name, expected = CASES[pack]
    assert _described(next(source for source in sources if source.checkpoint == name)) == expected
    assert ignored == ()
    read = read_parameters(SPEC.model_copy(update={"weights": sources}), tmp_path)
    assert read.keys() == values.keys()
    assert all(torch.equal(read[name], values[name]) for name in values)


def test_a_tensor_that_is_read_must_be_explained(tmp_path: Path) -> None:
    """What no parameter holds is an error where the reference reads it, else it is ignored by name."""
    values = parameters()
    save_file({**packed(values, lambda _, own: own), "mask": torch.ones(3, 3)}, tmp_path / "model.safetensors")
    with pytest.raises(UnexplainedError, match="mask"):
        find_sources(SPEC, values, (), tmp_path, lambda name, tensor: True)
    _, ignored = find_sources(SPEC, values, (), tmp_path, lambda name, tensor: False)
    assert ignored == ("mask",)


def test_a_parameter_without_a_tensor_is_an_error(tmp_path: Path) -> None:
    """A checkpoint that lacks what the spec needs is not taken."""
    values = parameters()
    checkpoint = packed(values, lambda _, own: own)
    del checkpoint["norm.weight"]
    save_file(checkpoint, tmp_path / "model.safetensors")
    with pytest.raises(UnexplainedError, match=r"norm\.weight"):
        find_sources(SPEC, values, (), tmp_path, lambda name, tensor: True)


def _described(source: WeightSource) -> dict[str, object]:
    return {
        "groups": source.groups.number,
        "transposed": source.transposed,
        "experts": source.experts,
        "kinds": source.kinds,
    }
