"""The statements that lay tensors out anew give what the spec's rule gives."""

from typing import Any

import pytest
import torch
from hand_specs import key, llama_spec, qwen3_moe_spec, source

from autoadapter.artifacts.decoder import DecoderSpec, Value, WeightSource
from autoadapter.generate.plugin.loading.pairs import places_of
from autoadapter.generate.plugin.loading.reshapes import cut, merged, needs_cut
from autoadapter.probe.workers.weights.cutting import cut as cut_by_the_rule

LAYER = "model.layers.{layer}."
QKV = ("layers.{layer}.0.q_proj.weight", "layers.{layer}.0.k_proj.weight", "layers.{layer}.0.v_proj.weight")
GATE_UP = ("layers.{layer}.1.gate_proj.weight", "layers.{layer}.1.up_proj.weight")
EXPERTS = ("layers.{layer}.1.experts.gate_proj.weight", "layers.{layer}.1.experts.up_proj.weight")
DOWN = "layers.{layer}.1.experts.down_proj.weight"


class Config:
    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)


def run(spec: DecoderSpec, how: WeightSource, tensor: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
    """What the generator yields for one tensor of layer 0."""
    lines = cut(spec, how, places_of(spec, how)).reshape.lines
    text = "def reshaped(config, name, weight):\n" + "".join(f"    {line}\n" for line in lines)
    scope: dict[str, Any] = {"torch": torch}
    yields = "yield" in text
    exec(text if yields else text + "    yield name, weight\n", scope)
    return list(scope["reshaped"](Config(spec.config_seen), how.checkpoint.replace("{layer}", "0"), tensor))


@pytest.mark.parametrize("groups", [key(2, "num_key_value_heads"), Value(number=2), Value(number=1)], ids=str)
def test_fused_queries_keys_and_values(groups: Value) -> None:
    spec = llama_spec()
    how = source(LAYER + "self_attn.qkv.weight", *QKV, groups=groups)
    tensor = torch.randn(256, 96)
    parts = cut_by_the_rule(spec.kinds[0], how, tensor)
    if not needs_cut(how, places_of(spec, how)):
        assert torch.equal(torch.cat(parts), tensor)
        return
    ((name, found),) = run(spec, how, tensor)
    assert name == "model.layers.0.self_attn.qkv.weight"
    assert torch.equal(found, torch.cat(parts))


def test_an_odd_order_is_taken_apart() -> None:
    spec = llama_spec()
    how = source(LAYER + "self_attn.qvk.weight", QKV[0], QKV[2], QKV[1], groups=key(2, "num_key_value_heads"))
    tensor = torch.randn(256, 96)
    q, v, k = cut_by_the_rule(spec.kinds[0], how, tensor)
    found = dict(run(spec, how, tensor))
    prefix = "model.layers.0.self_attn."
    assert torch.equal(found[f"{prefix}q_proj.weight"], q)
    assert torch.equal(found[f"{prefix}k_proj.weight"], k)
    assert torch.equal(found[f"{prefix}v_proj.weight"], v)


@pytest.mark.parametrize("groups", [1, 112])
@pytest.mark.parametrize("names", [GATE_UP, GATE_UP[::-1]], ids=["gate first", "up first"])
def test_gate_and_up(groups: int, names: tuple[str, ...]) -> None:
    spec = llama_spec()
    how = source(LAYER + "mlp.both.weight", *names, groups=Value(number=groups))
    tensor = torch.randn(224, 96)
    first, second = cut_by_the_rule(spec.kinds[0], how, tensor)
    if not needs_cut(how, places_of(spec, how)):
        assert torch.equal(torch.cat((first, second)), tensor)
        return
    found = dict(run(spec, how, tensor))
    for name, part in zip(names, (first, second), strict=True):
        assert torch.equal(found[f"model.layers.0.mlp.{name.split('.')[-2]}.weight"], part)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("groups", [1, 64])
def test_stacked_experts(transposed: bool, groups: int) -> None:
    spec = qwen3_moe_spec()
    how = source(
        LAYER + "mlp.experts.both", *EXPERTS, kinds=(0,), experts="leading", transposed=transposed,
        groups=Value(number=groups),
    )  # fmt: skip
    tensor = torch.randn(8, 96, 128) if transposed else torch.randn(8, 128, 96)
    gate, up = cut_by_the_rule(spec.kinds[0], how, tensor)
    found = dict(run(spec, how, tensor))
    assert len(found) == 16
    assert torch.equal(found["model.layers.0.mlp.experts.5.gate_proj.weight"], gate[5])
    assert torch.equal(found["model.layers.0.mlp.experts.5.up_proj.weight"], up[5])


@pytest.mark.parametrize("transposed", [False, True])
def test_experts_in_rows(transposed: bool) -> None:
    spec = qwen3_moe_spec()
    how = source(LAYER + "ffn.w2", DOWN, kinds=(0,), experts="rows", transposed=transposed)
    tensor = torch.randn(8 * 64, 96) if transposed else torch.randn(8 * 96, 64)
    (down,) = cut_by_the_rule(spec.kinds[0], how, tensor)
    found = dict(run(spec, how, tensor))
    assert torch.equal(found["model.layers.0.ffn.7.down_proj.weight"], down[7])


def test_a_weight_and_its_bias_share_a_branch() -> None:
    spec = llama_spec()
    ends = [("weight", QKV), ("bias", tuple(name.replace("weight", "bias") for name in QKV))]
    reshapes = [
        cut(spec, how, places_of(spec, how)).reshape
        for end, names in ends
        for how in [source(f"{LAYER}attn.qkv.{end}", *names, groups=key(2, "num_key_value_heads"))]
    ]
    (one,) = merged(reshapes)
    assert one.condition_lines("if") == ('if ".attn.qkv." in name:',)
