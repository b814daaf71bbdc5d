"""Fits what comes after the last layer: final norm, head, scales and soft cap."""

from dataclasses import dataclass, replace

from autoadapter.artifacts.decoder import Evidence, Head, HeadTransform, Norm, Value
from autoadapter.probe.workers.fit.binding import bind
from autoadapter.probe.workers.fit.fitted import Fitted, ParameterUse, UnexplainedError
from autoadapter.probe.workers.fit.norms import ROUNDING
from autoadapter.probe.workers.fit.skeleton.branches import hidden_ends
from autoadapter.probe.workers.fit.skeleton.flow import Flow, plain, same_elements
from autoadapter.probe.workers.fit.skeleton.normal import Normed, Norms
from autoadapter.probe.workers.fit.skeleton.products import Product, product_of
from autoadapter.probe.workers.fit.skeleton.scales import bind_scale
from autoadapter.probe.workers.fit.skeleton.telling import below, scale_evidence
from autoadapter.probe.workers.fit.skeleton.terms import Term, unscale
from autoadapter.probe.workers.replay.norms import ACTIVATIONS
from autoadapter.probe.workers.scene import Scene
from autoadapter.probe.workers.trace import Seen

CAP_KEYS = ("final_logit_softcapping", "logits_soft_cap", "output_logit_soft_cap", "logit_softcap")


@dataclass(frozen=True)
class _Capped:
    inner: Seen
    cap: float | None
    scale: float
    scaled: bool


def fit_head(scene: Scene, norms: Norms, embedding: str) -> tuple[Fitted[Norm] | None, Fitted[Head]]:
    """The final norm, where there is one, and the head; `embedding` names the table that a tied head shares.

    Raises:
        UnexplainedError: the logits are no product of the last hidden states, or it is reached by an unknown way.
    """
    flow = norms.flow
    hidden = flow.root(hidden_ends(scene, len(scene.layers) - 1)[1])
    capped = _capped(flow, _logits(scene))
    product = product_of(flow, capped.inner)
    if product is None:
        raise _refusal("the logits are no product with a weight")
    before = unscale(flow, product.x)
    scale = Term(capped.scale * before.factor, product.x, capped.scaled or before.scaled)
    if product.bias is not None and scale.factor != 1:
        raise _refusal("a head with a bias is scaled")
    tied = product.weight == embedding
    uses = [] if tied else [ParameterUse(product.weight, ("head.weight",), transposed=product.transposed)]
    uses += [ParameterUse(product.bias, ("head.bias",))] if product.bias else []
    head = Head(
        tied=tied,
        bias=product.bias is not None,
        scale=bind_scale(scene.config, scale, "head"),
        softcap=None if capped.cap is None else bind(scene.config, capped.cap, CAP_KEYS),
    )
    evidence = (*scale_evidence(head.scale, product.error), *_cap_evidence(head.softcap, capped, scene))
    fitted = Fitted(head, product.error, evidence, tuple(uses))
    return _reached(scene, norms, fitted, before.seen, hidden)


def _reached(
    scene: Scene, norms: Norms, head: Fitted[Head], seen: Seen, hidden: Seen
) -> tuple[Fitted[Norm] | None, Fitted[Head]]:
    """The way from the last layer's output to the head's input."""
    within = norms.flow.after(hidden, len(scene.trace.events))
    if seen is hidden:
        return None, head
    normed = norms.into(seen, within)
    if normed is not None and normed.source is hidden:
        return normed.norm, head
    projected = product_of(norms.flow, seen)
    if projected is not None and not head.value.projected and projected.bias is None:
        uses = (*head.uses, ParameterUse(projected.weight, ("head_proj.weight",), transposed=projected.transposed))
        head = replace(head, value=head.value.model_copy(update={"projected": True}), uses=uses)
        return _reached(scene, norms, head, projected.x, hidden)
    if head.value.transform is None:
        transform, source = _transform(norms.flow, normed, seen)
        return _reached(scene, norms, below(head, "transform", transform, targets=""), source, hidden)
    raise _refusal("the way from the last layer to the head is not explained")


def _transform(flow: Flow, normed: Normed | None, seen: Seen) -> tuple[Fitted[HeadTransform], Seen]:
    out = normed.source if normed is not None else seen
    event = flow.maker(out)
    while event is not None:
        for inner in (one for one in event.ins if one.parameter is None):
            dense = product_of(flow, inner)
            if dense is not None:
                return _activated(out, inner, dense, normed), dense.x
        event = next((flow.maker(one) for one in event.ins if one.parameter is None and one.event is not None), None)
    raise _refusal("the way from the last layer to the head is not explained")


def _activated(out: Seen, inner: Seen, dense: Product, normed: Normed | None) -> Fitted[HeadTransform]:
    scored = sorted(
        (float((act(inner.value) - out.value).abs().max() / out.value.abs().max()), name)
        for name, act in ACTIVATIONS.items()
    )
    error, name = scored[0]
    if error > ROUNDING:
        raise UnexplainedError("head", tuple((n, e) for e, n in scored[:3]), "its activation is not known")
    transform = HeadTransform(activation=name, bias=dense.bias is not None, norm=None)
    rival_error, rival = next((e, n) for e, n in scored if e > 100 * max(error, 1e-7))
    uses = [ParameterUse(dense.weight, ("head_dense.weight",), transposed=dense.transposed)]
    uses += [ParameterUse(dense.bias, ("head_dense.bias",))] if dense.bias else []
    evidence = Evidence(path="activation", value=name, max_error=error, runner_up=rival, runner_up_error=rival_error)
    fitted = Fitted(transform, error, (evidence,), tuple(uses))
    return fitted if normed is None else below(fitted, "norm", normed.norm, targets="head_norm")


def _logits(scene: Scene) -> Seen:
    for event in reversed(scene.trace.events):
        for out in event.outs:
            if same_elements(out.value.float(), scene.logits):
                return out
    raise _refusal("no traced call made the logits")


def _capped(flow: Flow, logits: Seen) -> _Capped:
    outer = unscale(flow, logits)
    event = flow.maker(outer.seen)
    if event is None or plain(event.name) != "tanh":
        return _Capped(outer.seen, None, outer.factor, outer.scaled)
    squeezed = unscale(flow, event.ins[0])
    inner = unscale(flow, squeezed.seen)
    scale = squeezed.factor * inner.factor * outer.factor
    close = abs(scale - 1) < ROUNDING
    return _Capped(inner.seen, outer.factor, 1.0 if close else scale, not close)


def _cap_evidence(cap: Value | None, capped: _Capped, scene: Scene) -> tuple[Evidence, ...]:
    if cap is None:
        return ()
    bare = capped.inner.value.reshape(scene.logits.shape) * capped.scale
    off = float((bare - scene.logits).abs().max() / scene.logits.abs().max())
    free = Value(number=1e6).model_dump(mode="json")
    value = cap.model_dump(mode="json")
    return (Evidence(path="softcap", value=value, max_error=ROUNDING, runner_up=free, runner_up_error=off),)


def _refusal(why: str) -> UnexplainedError:
    return UnexplainedError("head", (), why)
