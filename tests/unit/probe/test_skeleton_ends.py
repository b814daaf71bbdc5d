"""Embedding, final norm and head, found without names."""

import math

import pytest
import torch
import torch.nn.functional as F
from nameless import IDS, TOKENS, WIDTH, Blob, Pile, pile
from torch import Tensor, nn

from autoadapter.artifacts.decoder import Positions
from autoadapter.probe.workers.fit.fitted import UnexplainedError
from autoadapter.probe.workers.fit.skeleton import Ends, fit_ends, watch
from autoadapter.probe.workers.fit.skeleton.positions import sinusoids


def layer(s: Blob, x: Tensor) -> Tensor:
    """The simplest one."""
    return x + s.m(s.n[0](x))


def ends(model: Pile) -> Ends:
    """Of one traced pass."""
    return fit_ends(watch(model, model.config, IDS))


def used(found: Ends) -> dict[str, str]:
    """Parameter → target of embedding and head."""
    return {use.parameter: use.targets[0] for part in (found.embedding, found.head) for use in part.uses}


def test_plain_ends() -> None:
    found = ends(pile(layer))
    assert found.embedding.value.model_dump(exclude_defaults=True) == {}
    assert found.norm is not None and found.norm.value.eps.number == 1e-6
    assert found.head.value.tied is False
    assert used(found) == {"e.weight": "embed.weight", "h.weight": "head.weight"}


def test_a_scale_that_the_config_states_has_its_key() -> None:
    model = pile(layer, start=lambda self, ids: self.e(ids) * math.sqrt(WIDTH), stop=lambda self, x: self.h(x) / 7)
    model.config["logits_scaling"] = 7
    found = ends(model)
    assert (found.embedding.value.scale.key, found.embedding.value.scale.form) == ("hidden_size", "square_root")
    assert (found.head.value.scale.key, found.head.value.scale.form) == ("logits_scaling", "reciprocal")
    assert found.norm is None


@pytest.mark.parametrize("as_tensor", [False, True])
def test_only_a_tensor_carries_the_weight_dtype(as_tensor: bool) -> None:
    factor = torch.tensor(3.5) if as_tensor else 3.5
    scale = ends(pile(layer, start=lambda self, ids: self.e(ids) * factor)).embedding.value
    assert (scale.scale.number, scale.scale_in_weight_dtype) == (3.5, as_tensor)


def test_learned_positions_with_an_offset() -> None:
    found = ends(pile(layer, start=lambda self, ids: 2.0 * self.e(ids) + self.p(torch.arange(TOKENS)[None] + 2)))
    assert found.embedding.value.positions.offset == 2
    assert found.embedding.value.positions.rows.number == TOKENS + 4
    assert found.embedding.value.scale.number == 2.0
    assert used(found)["p.weight"] == "positions.weight"


@pytest.mark.parametrize("order", ["halves", "interleaved"])
@pytest.mark.parametrize("frequencies", ["fairseq", "vaswani"])
def test_sinusoids(order: str, frequencies: str) -> None:
    wanted = Positions(kind="sinusoidal", offset=1, order=order, frequencies=frequencies)
    found = ends(pile(layer, start=lambda self, ids: self.e(ids) + sinusoids(wanted, TOKENS, WIDTH)[None]))
    assert found.embedding.value.positions == wanted


def test_an_embedding_norm_and_a_projection() -> None:
    def start(self: Pile, ids: Tensor) -> Tensor:
        return self.k[0].n[3](F.linear(F.embedding(ids, self.narrow), self.wide))

    model = pile(layer, start=start)
    model.narrow, model.wide = nn.Parameter(torch.randn(31, 6)), nn.Parameter(torch.randn(WIDTH, 6))
    found = ends(model)
    assert found.embedding.value.width.number == 6
    assert found.embedding.value.norm.kind == "rms"
    assert {"narrow": "embed.weight", "wide": "embed_proj.weight", "k.0.n.3.q": "embed_norm.weight"}.items() <= (
        used(found).items()
    )


def test_a_tied_capped_head_with_a_transform() -> None:
    def stop(self: Pile, x: Tensor) -> Tensor:
        h = self.k[1].n[3](F.gelu(self.dense(self.f(x))))
        return 30.0 * torch.tanh(F.linear(h, self.e.weight, self.bias) / 30.0)

    model = pile(layer, stop=stop)
    model.dense, model.bias = nn.Linear(WIDTH, WIDTH), nn.Parameter(torch.randn(31))
    found = ends(model)
    head = found.head.value
    assert head.tied and head.bias and head.scale is None
    assert head.softcap.number == pytest.approx(30.0)
    assert (head.transform.activation, head.transform.bias, head.transform.norm.kind) == ("gelu", True, "rms")
    assert found.norm is not None


def test_a_row_added_to_every_token_is_refused() -> None:
    model = pile(layer, start=lambda self, ids: self.e(ids) + self.p(torch.zeros_like(ids)))
    with pytest.raises(UnexplainedError, match="same for every token"):
        ends(model)
