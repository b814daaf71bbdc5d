"""Layers are found by what they pass on, however they are kept."""

from typing import Any

import pytest
from nameless import IDS, Blob, Pile, Settings
from torch import Tensor, nn

from autoadapter.probe.workers.fit.fitted import UnexplainedError
from autoadapter.probe.workers.fit.skeleton import fit_ends, layer_blocks, watch


def wiring(s: Blob, x: Tensor) -> Tensor:
    """One block, the sum with nothing added to it."""
    return x + (s.m(s.n[0](x)) + 0)


class Attributes(nn.Module):
    """Layers as plain attributes of the model."""

    def __init__(self) -> None:
        super().__init__()
        whole = Pile(wiring)
        self.x, self.yy, self.zed = whole.k
        self.e, self.f, self.h = whole.e, whole.f, whole.h

    def forward(self, input_ids: Tensor, use_cache: bool = False) -> Any:
        """Ids → (logits,)."""
        return (self.h(self.f(self.zed(self.yy(self.x(self.e(input_ids) + 0))))),)


class Nested(Attributes):
    """Layers in lists of lists."""

    def __init__(self) -> None:
        super().__init__()
        self.groups = nn.ModuleList([nn.ModuleList([self.x, self.yy]), nn.ModuleList([self.zed])])
        del self.x, self.yy, self.zed

    def forward(self, input_ids: Tensor, use_cache: bool = False) -> Any:
        """Ids → (logits,)."""
        x = self.e(input_ids)
        for group in self.groups:
            for layer in group:
                x = layer(x)
        return (self.h(self.f(x)),)


class Shared(Attributes):
    """One layer called three times."""

    def forward(self, input_ids: Tensor, use_cache: bool = False) -> Any:
        """Ids → (logits,)."""
        return (self.h(self.f(self.x(self.x(self.x(self.e(input_ids)))))),)


FOUND = [
    (Attributes, ("x", "yy", "zed")),
    (Nested, ("groups.0.0", "groups.0.1", "groups.1.0")),
    (Shared, ("x", "x", "x")),
]


@pytest.mark.parametrize(("kind", "layers"), FOUND, ids=[kind.__name__ for kind, _ in FOUND])
def test_layers_are_found(kind: type[nn.Module], layers: tuple[str, ...]) -> None:
    scene = watch(kind(), Settings(num_hidden_layers=3, rms_norm_eps=1e-5), IDS)
    assert scene.layers == layers
    assert [layer_blocks(scene, layer).branches[0].block.mixes_tokens for layer in range(3)] == [True] * 3
    assert fit_ends(scene).norm is not None


def test_a_model_without_a_chain_is_refused() -> None:
    class Flat(Attributes):
        def forward(self, input_ids: Tensor, use_cache: bool = False) -> Any:
            return (self.e(input_ids) @ self.e.weight.T,)

    with pytest.raises(UnexplainedError, match="no chain"):
        watch(Flat(), Settings(num_hidden_layers=3), IDS)
