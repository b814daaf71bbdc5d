"""Fits what comes before the first layer."""

from dataclasses import replace

import torch

from autoadapter.artifacts.decoder import Embedding
from autoadapter.probe.workers.fit.binding import bind
from autoadapter.probe.workers.fit.fitted import Fitted, ParameterUse, UnexplainedError
from autoadapter.probe.workers.fit.skeleton.branches import hidden_ends
from autoadapter.probe.workers.fit.skeleton.flow import Flow
from autoadapter.probe.workers.fit.skeleton.normal import Norms
from autoadapter.probe.workers.fit.skeleton.positions import fit_positions
from autoadapter.probe.workers.fit.skeleton.products import product_of
from autoadapter.probe.workers.fit.skeleton.scales import bind_scale
from autoadapter.probe.workers.fit.skeleton.telling import below, scale_evidence
from autoadapter.probe.workers.fit.skeleton.terms import Term, expand, unscale
from autoadapter.probe.workers.fit.skeleton.watching import call_of
from autoadapter.probe.workers.scene import Scene
from autoadapter.probe.workers.trace import Seen

WIDTH_KEYS = ("word_embed_proj_dim", "embedding_size", "emb_dim", "embed_dim")


def fit_embedding(scene: Scene, norms: Norms) -> Fitted[Embedding]:
    """Embedding, positions and what happens to them before the first layer.

    Raises:
        UnexplainedError: the first hidden states are no sum of looked-up rows.
    """
    flow, last = norms.flow, call_of(scene, 0).first
    looked_up, name = _lookup(scene, flow, last)
    within = flow.after(looked_up, last)
    out = flow.root(hidden_ends(scene, 0)[0])
    normed = norms.into(out, within)
    terms = expand(flow, normed.source if normed else out, lambda seen: seen is looked_up)
    token = [term for term in terms if term.seen in within]
    if len(token) != 1:
        raise _refusal(f"{len(token)} terms of the first hidden states depend on the tokens")
    scale, projection = _to_lookup(flow, token[0], looked_up)
    fitted = Fitted(
        Embedding(
            scale=bind_scale(scene.config, scale, "embedding"),
            scale_in_weight_dtype=scale.scaled and _tensor_scaled(flow, looked_up, last),
            width=None if projection is None else bind(scene.config, looked_up.value.shape[-1], WIDTH_KEYS),
        ),
        0.0,
        uses=(ParameterUse(name, ("embed.weight",)), *_projection_use(projection)),
    )
    fitted = _with_positions(scene, flow, fitted, [term for term in terms if term not in token])
    if normed is not None:
        fitted = below(fitted, "norm", normed.norm, targets="embed_norm")
    error = max(fitted.error, 0.0)
    return replace(fitted, evidence=(*fitted.evidence, *scale_evidence(fitted.value.scale, error)))


def _lookup(scene: Scene, flow: Flow, last: int) -> tuple[Seen, str]:
    """The tensor that holds the rows of a table at the token ids, and the table's name."""
    for event in scene.trace.events[:last]:
        for seen in event.ins:
            if seen.parameter is None or seen.value.ndim != 2:
                continue
            table = scene.parameter(seen.parameter)
            if table.ndim != 2 or len(table) <= int(scene.ids.max()):
                continue
            rows = table[scene.ids[0]].reshape(-1)
            for out in event.outs:
                if out.value.numel() == rows.numel() and torch.equal(out.value.reshape(-1), rows):
                    return flow.root(out), seen.parameter
    raise _refusal("no table is looked up at the token ids")


def _to_lookup(flow: Flow, token: Term, looked_up: Seen) -> tuple[Term, str | None]:
    """The whole scale on the way from the table, and the projection that is passed."""
    inner = unscale(flow, token.seen)
    scale = Term(token.factor * inner.factor, inner.seen, token.scaled or inner.scaled)
    if scale.seen is looked_up:
        return scale, None
    product = product_of(flow, scale.seen)
    if product is None or product.bias is not None:
        raise _refusal("the way from the table to the first layer is not explained")
    before = unscale(flow, product.x)
    if before.seen is not looked_up:
        raise _refusal("the way from the table to the first layer is not explained")
    return Term(scale.factor * before.factor, looked_up, scale.scaled or before.scaled), product.weight


def _tensor_scaled(flow: Flow, looked_up: Seen, last: int) -> bool:
    """Whether the scale is a tensor, which carries the weight's precision, and not a number."""
    users = [event for event in flow.trace.events[:last] if looked_up in flow.ins(event)]
    return any(
        seen.value.ndim == 0 and seen.value.is_floating_point() and flow.number(seen) not in {None, 1.0}
        for event in users
        for seen in event.ins
    )


def _projection_use(projection: str | None) -> tuple[ParameterUse, ...]:
    return () if projection is None else (ParameterUse(projection, ("embed_proj.weight",)),)


def _with_positions(scene: Scene, flow: Flow, fitted: Fitted[Embedding], terms: list[Term]) -> Fitted[Embedding]:
    tokens = scene.ids.shape[1]
    for term in terms:
        added = term.factor * term.seen.value.reshape(tokens, -1)
        if not bool(added.any()):
            continue
        if torch.equal(added[:1].expand_as(added), added):
            raise _refusal("one row, the same for every token, is added to the embeddings")
        if fitted.value.positions is not None:
            raise _refusal("two tables of positions are added to the embeddings")
        fitted = below(fitted, "positions", fit_positions(scene, added, _tables(flow, term.seen)), targets="")
    return fitted


def _tables(flow: Flow, seen: Seen) -> list[str]:
    found, todo, known = [], [seen], set()
    while todo:
        event = flow.maker(todo.pop())
        if event is None or event in known:
            continue
        known.add(event)
        todo += list(event.ins)
        found += [one.parameter for one in event.ins if one.parameter is not None]
    return found


def _refusal(why: str) -> UnexplainedError:
    return UnexplainedError("embedding", (), why)
