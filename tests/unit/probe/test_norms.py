"""Norms are told apart, and so are their epsilons."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from nameless import IDS, Settings
from torch import Tensor, nn

from autoadapter.artifacts.decoder import Norm
from autoadapter.probe.workers.fit.fitted import Fitted, UnexplainedError
from autoadapter.probe.workers.fit.norms import apply_norm, fit_norm
from autoadapter.probe.workers.scene import Scene
from autoadapter.probe.workers.trace import Trace

WIDTH = 12


class Holder(nn.Module):
    """Two vectors and a function of them."""

    def __init__(self, function: Any, shape: tuple[int, ...] = (WIDTH,)) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.a, self.b = nn.Parameter(torch.rand(shape) + 0.2), nn.Parameter(torch.randn(shape))
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """X of any shape that the function takes."""
        return self.function(x, self.a, self.b)


def fitted(function: Any, x: Tensor | None = None, **config: Any) -> Fitted[Norm]:
    """The norm that a function is."""
    x = torch.randn(1, 7, WIDTH, generator=torch.Generator().manual_seed(2)) + 0.3 if x is None else x
    model = Holder(function, config.pop("shape", (WIDTH,)))
    with torch.no_grad(), Trace(model) as trace:
        y = model(x)
    scene = Scene(model, Settings(config), IDS, torch.zeros(1), trace, ())
    found = fit_norm(scene, x, y, trace.events)
    held = {use.targets[0]: scene.parameter(use.parameter) for use in found.uses}
    assert torch.allclose(apply_norm(found.value, x, held.get("weight"), held.get("bias")), y, atol=1e-5)
    return found


def rms(x: Tensor, eps: float) -> Tensor:
    """X by its root mean square."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)


FUNCTIONS = {
    ("rms", "plain", False): lambda x, a, b: a * rms(x, 1e-5),
    ("rms", "one_plus", False): lambda x, a, b: (1.0 + a) * rms(x, 1e-5),
    ("rms", "none", False): lambda x, a, b: rms(x, 1e-5),
    ("layer", "plain", True): lambda x, a, b: F.layer_norm(x, (WIDTH,), a, b, 1e-5),
    ("layer", "one_plus", True): lambda x, a, b: F.layer_norm(x, (WIDTH,), a + 1, b, 1e-5),
    ("layer", "plain", False): lambda x, a, b: F.layer_norm(x, (WIDTH,), a, None, 1e-5),
    ("layer", "none", False): lambda x, a, b: F.layer_norm(x, (WIDTH,), None, None, 1e-5),
    ("l2", "none", False): lambda x, a, b: x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + 1e-5),
}


@pytest.mark.parametrize("expected", FUNCTIONS, ids=str)
def test_kind_weight_and_bias(expected: tuple[str, str, bool]) -> None:
    found = fitted(FUNCTIONS[expected], layer_norm_eps=1e-5).value
    assert (found.kind, found.weight, found.bias) == expected
    assert (found.eps.number, found.eps.key) == (1e-5, "layer_norm_eps")


@pytest.mark.parametrize("eps", [1e-5, 1e-6, 1e-8])
@pytest.mark.parametrize("size", [1.0, 300.0])
def test_epsilon_is_read_where_numbers_hide_it(eps: float, size: float) -> None:
    x = size * torch.randn(1, 7, WIDTH, generator=torch.Generator().manual_seed(4))
    found = fitted(lambda x, a, b: a * rms(x, eps), x, rms_norm_eps=1e-6)
    assert found.value.eps.number == eps
    assert found.value.eps.key == ("rms_norm_eps" if eps == 1e-6 else None)


def test_parts_of_the_last_axis() -> None:
    def function(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return a * rms(x.view(1, 7, 3, 4), 1e-5).reshape(x.shape)

    assert fitted(function).value.groups.number == 3


def test_heads_with_weights_of_their_own() -> None:
    x = torch.randn(1, 7, 2, WIDTH, generator=torch.Generator().manual_seed(5))
    found = fitted(lambda x, a, b: a * rms(x, 1e-5), x, shape=(2, WIDTH))
    assert found.value.weight == "plain"
    assert found.uses[0].parameter == "a"


def test_the_runner_up_is_told_with_its_error() -> None:
    found = fitted(FUNCTIONS["rms", "one_plus", False])
    told = {item.path: item for item in found.evidence}
    assert told["weight"].runner_up in {"plain", "none"}
    assert told["weight"].runner_up_error > 1e-2 > 1e-6 > told["weight"].max_error
    assert told["eps"].runner_up["number"] == pytest.approx(1e-4)


def test_what_is_no_norm_is_refused() -> None:
    with pytest.raises(UnexplainedError) as caught:
        fitted(lambda x, a, b: a * torch.tanh(x))
    assert len(caught.value.candidates) == 3
