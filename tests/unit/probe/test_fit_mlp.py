"""An MLP is recognised by what it computes, whatever its parts are called and however they lie in memory."""

from typing import Any

import blocks_alone as blocks
import pytest
import torch
import torch.nn.functional as F

from autoadapter.artifacts.decoder import Mlp, Opaque
from autoadapter.probe.workers.fit.feed_forward import fit_feed_forward
from autoadapter.probe.workers.fit.fitted import Fitted, UnexplainedError
from autoadapter.probe.workers.scene import Block


def fitted(module: torch.nn.Module, **config: Any) -> Fitted[Mlp]:
    """The module as an MLP."""
    result = fit_feed_forward(*blocks.seen_alone(module, **config))
    assert isinstance(result.value, Mlp), result.value
    assert result.error < 1e-5
    return result


def placed(result: Fitted[Any]) -> dict[str, tuple[str, ...]]:
    """Targets by parameter."""
    return {use.parameter.removeprefix("z.0.q."): use.targets for use in result.uses}


@pytest.mark.parametrize("swapped", [False, True])
def test_gate_is_told_from_up(swapped: bool) -> None:
    result = fitted(blocks.Gated(bias=True, swapped=swapped))
    assert result.value.gated
    assert result.value.activation == "silu"
    assert result.value.up_bias
    assert result.value.down_bias
    first, second = ("up_proj", "gate_proj") if swapped else ("gate_proj", "up_proj")
    assert placed(result)["a.weight"] == (f"{first}.weight",)
    assert placed(result)["b.bias"] == (f"{second}.bias",)
    assert placed(result)["c.weight"] == ("down_proj.weight",)


@pytest.mark.parametrize(
    ("layout", "targets", "groups"),
    [
        ("gate|up", ("gate_proj", "up_proj"), 1),
        ("up|gate", ("up_proj", "gate_proj"), 1),
        ("interleaved", ("gate_proj", "up_proj"), blocks.INNER),
    ],
)
def test_fused_branches_are_found(layout: str, targets: tuple[str, ...], groups: int) -> None:
    result = fitted(blocks.Fused(layout))
    use = next(use for use in result.uses if use.parameter == "z.0.q.a.weight")
    assert use.targets == tuple(f"{name}.weight" for name in targets)
    assert use.groups.number == groups
    assert result.value.activation == "gelu"


@pytest.mark.parametrize(
    ("act", "name"),
    [
        (F.gelu, "gelu"),
        (lambda x: F.gelu(x, approximate="tanh"), "gelu_pytorch_tanh"),
        (lambda x: F.relu(x).square(), "relu2"),
        (F.relu, "relu"),
        (torch.tanh, "tanh"),
    ],
)
def test_activation_without_a_gate(act: Any, name: str) -> None:
    result = fitted(blocks.Ungated(act))
    assert not result.value.gated
    assert result.value.activation == name
    assert result.value.up_bias
    assert not result.value.down_bias
    assert (result.value.intermediate_size.key, result.value.intermediate_size.factor) == ("hidden_size", 4.0)
    assert all(use.transposed for use in result.uses if use.targets[0].endswith("weight"))
    evidence = next(entry for entry in result.evidence if entry.path == "activation")
    assert evidence.runner_up_error is not None
    assert evidence.runner_up_error > 10 * evidence.max_error


def test_limits_are_bound_to_the_config() -> None:
    limit = fitted(blocks.Gated(limit=0.7)).value.gate_limit
    assert limit is not None
    assert (limit.number, limit.key) == (0.7, "swiglu_limit")


def test_limit_that_nothing_reaches_is_kept() -> None:
    limit = fitted(blocks.Gated(limit=700.0)).value.gate_limit
    assert limit is not None
    assert limit.number == 700.0


def test_unknown_module_is_carried_over() -> None:
    result = fit_feed_forward(*blocks.seen_alone(blocks.Odd()))
    assert isinstance(result.value, Opaque)
    assert result.value.module == "z.0.q"
    assert placed(result) == {name: (name,) for name in ("a.weight", "a.bias", "c.weight", "c.bias")}


def test_unknown_block_inside_a_module_is_refused_with_the_best_candidates() -> None:
    scene, block = blocks.seen_alone(blocks.Odd())
    inline = Block(0, "z.0", block.x, block.y, block.events, mixes_tokens=False)
    with pytest.raises(UnexplainedError, match="no activation") as caught:
        fit_feed_forward(scene, inline)
    assert caught.value.candidates
