"""The wiring of layers is found by data flow and numbers alone."""

from typing import Any

import pytest
import torch
from nameless import IDS, Blob, pile
from torch import Tensor

from autoadapter.probe.workers.fit.fitted import UnexplainedError
from autoadapter.probe.workers.fit.skeleton import LayerSkeleton, layer_blocks, watch


def sequential(s: Blob, x: Tensor) -> Tensor:
    """X + mixing(norm x), then the same with the token-wise block."""
    x = x + s.m(s.n[0](x))
    return x + s.w(s.n[1](x))


def parallel(s: Blob, x: Tensor) -> Tensor:
    """Both blocks read one norm of the layer's input."""
    n = s.n[0](x)
    return s.m(n) + s.w(n) + x


def parallel_apart(s: Blob, x: Tensor) -> Tensor:
    """Both read the layer's input through norms of their own."""
    return x + s.m(s.n[0](x)) + s.w(s.n[1](x))


def sandwich(s: Blob, x: Tensor) -> Tensor:
    """Norms before and behind each block."""
    x = x + s.n[1](s.m(s.n[0](x)))
    return x + s.n[3](s.w(s.n[2](x)))


def behind(s: Blob, x: Tensor) -> Tensor:
    """Norms behind each block only."""
    x = x + s.n[0](s.m(x))
    return x + s.n[1](s.w(x))


def post(s: Blob, x: Tensor) -> Tensor:
    """The stream itself is normed behind each sum."""
    x = s.n[0](x + s.m(x))
    return s.n[1](x + s.w(x))


def kept(s: Blob, x: Tensor) -> Tensor:
    """The normed stream is what is kept."""
    n = s.n[0](x)
    x = n + s.m(n)
    n = s.n[1](x)
    return n * 1.5 + s.w(n) * 0.25


def scaled(s: Blob, x: Tensor) -> Tensor:
    """Blocks read and join the stream scaled."""
    x = x + s.m(s.n[0](x) * 0.5) * 0.3
    return x + (s.w(s.n[1](x)) + s.v(s.n[1](x))) * 0.3


def shared_experts(s: Blob, x: Tensor) -> Tensor:
    """Two token-wise parts of one block."""
    x = x + s.m(s.n[0](x))
    n = s.n[1](x)
    return x + (s.w(n) * 2.5 + s.v(n))


def in_place(s: Blob, x: Tensor) -> Tensor:
    """Sums are written into what was there."""
    x = x.clone()
    x += s.m(s.n[0](x))
    x.add_(s.w(s.n[1](x)))
    return x


def told(layer: LayerSkeleton) -> list[dict[str, Any]]:
    """What a branch says beyond its defaults, shortly."""
    fields = ("reads", "shares_norm_with", "input_scale", "output_scale", "stream_scale", "keeps_normed")
    branches = []
    for branch in layer.branches:
        said: dict[str, Any] = {"mixes": branch.block.mixes_tokens}
        said |= {name: True for name in ("input_norm", "output_norm", "post_norm") if getattr(branch, name)}
        for name in fields:
            value = getattr(branch, name)
            if value not in {None, "stream"} and value is not False:
                said[name] = getattr(value, "number", value)
        branches.append(said)
    return branches


MIX, WISE = {"mixes": True}, {"mixes": False}
PRE = {"input_norm": True}
EXPECTED = [
    (sequential, [MIX | PRE, WISE | PRE]),
    (parallel, [MIX | PRE, WISE | {"reads": "layer_input", "shares_norm_with": 0}]),
    (parallel_apart, [MIX | PRE, WISE | PRE | {"reads": "layer_input"}]),
    (sandwich, [MIX | PRE | {"output_norm": True}, WISE | PRE | {"output_norm": True}]),
    (behind, [MIX | {"output_norm": True}, WISE | {"output_norm": True}]),
    (post, [MIX | {"post_norm": True}, WISE | {"post_norm": True}]),
    (shared_experts, [MIX | PRE, WISE | PRE]),
    (in_place, [MIX | PRE, WISE | PRE]),
]


@pytest.mark.parametrize(("wiring", "expected"), EXPECTED, ids=[wiring.__name__ for wiring, _ in EXPECTED])
def test_wiring_is_found(wiring: Any, expected: list[dict[str, Any]]) -> None:
    model = pile(wiring)
    scene = watch(model, model.config, IDS)
    assert scene.layers == ("k.0", "k.1", "k.2")
    for layer in range(3):
        found = layer_blocks(scene, layer)
        assert told(found) == expected
        assert found.error < 1e-6


def test_scales_are_found_with_their_keys() -> None:
    model = pile(scaled)
    model.config["residual_multiplier"] = 0.3
    first, second, third = layer_blocks(watch(model, model.config, IDS), 1).branches
    assert third.shares_norm_with == 1
    assert (first.input_scale.number, first.output_scale.number) == (pytest.approx(0.5), pytest.approx(0.3))
    assert {branch.output_scale.key for branch in (first, second, third)} == {"residual_multiplier"}


def test_a_kept_norm_is_told_from_a_post_norm() -> None:
    model = pile(kept)
    first, second = layer_blocks(watch(model, model.config, IDS), 0).branches
    assert first.keeps_normed and first.input_norm is not None
    assert first.post_norm is not None and second.input_norm is None  # the same as a second kept norm
    assert (second.stream_scale.number, second.output_scale.number) == (1.5, 0.25)


def test_parameters_and_evidence_are_told_relative_to_the_branch() -> None:
    model = pile(sandwich)
    branch = layer_blocks(watch(model, model.config, IDS), 2).branches[1]
    assert {(use.parameter, use.targets) for use in branch.uses} == {
        ("k.2.n.2.q", ("input_norm.weight",)),
        ("k.2.n.3.q", ("output_norm.weight",)),
    }
    assert {"input_norm.kind", "output_norm.eps"} <= {item.path for item in branch.evidence}
    assert branch.input_norm.eps.key == "rms_norm_eps"


def test_a_block_is_what_lies_between_norm_and_sum() -> None:
    model = pile(sandwich)
    scene = watch(model, model.config, IDS)
    block = layer_blocks(scene, 0).branches[1].block
    assert block.module == "k.0.w"
    assert torch.equal(model.k[0].w(block.x.value), block.y.value)
    assert [event.name for event in block.events] == ["linear", "silu", "linear"]


def test_a_sum_left_to_the_next_layer_is_joined() -> None:
    def apart(s: Blob, given: Any) -> Any:
        h, residual = given
        residual = h if residual is None else h + residual
        return s.m(s.n[0](residual)), residual

    model = pile(
        apart,
        start=lambda self, ids: (self.e(ids), None),
        stop=lambda self, given: self.h(self.f(given[0] + given[1])),
    )
    scene = watch(model, model.config, IDS)
    for layer in range(3):
        assert told(layer_blocks(scene, layer)) == [MIX | PRE]


@pytest.mark.parametrize(
    "wiring",
    [
        lambda s, x: x * s.z + s.m(s.n[0](x)),
        lambda s, x: torch.tanh(x) + s.m(s.n[0](x)),
        lambda s, x: s.w(s.m(s.n[0](x))),
    ],
    ids=["learned scale", "bent stream", "no stream"],
)
def test_what_is_no_residual_stream_is_refused(wiring: Any) -> None:
    model = pile(wiring)
    with pytest.raises(UnexplainedError, match=r"k\.1"):
        layer_blocks(watch(model, model.config, IDS), 1)
