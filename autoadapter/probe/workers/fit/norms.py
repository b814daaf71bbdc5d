"""Fits a normalisation to its input and output."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from autoadapter.artifacts.decoder import Evidence, Norm, Value
from autoadapter.probe.workers.fit.binding import bind, stated
from autoadapter.probe.workers.fit.fitted import Fitted, ParameterUse, UnexplainedError
from autoadapter.probe.workers.scene import Scene
from autoadapter.probe.workers.trace import Event, Seen

EPS_KEYS = (
    "rms_norm_eps",
    "layer_norm_eps",
    "layer_norm_epsilon",
    "norm_eps",
    "norm_epsilon",
    "layernorm_epsilon",
    "layernorm_eps",
    "rms_norm_epsilon",
    "rms_eps",
    "eps",
)
ROUNDING = 1e-5
"""Relative error below which a part is explained: float32 against float64."""
UNDECIDED = 2.0
"""Errors within this factor of the best are one and the same."""
LARGEST_EPS = 1e-2
KINDS = ("rms", "layer", "l2")


@dataclass(frozen=True)
class _Candidate:
    kind: str
    eps: float
    groups: int
    form: str
    weight: str | None
    bias: str | None


def normalise(kind: str, x: torch.Tensor, eps: float, groups: int = 1) -> torch.Tensor:
    """X without weight or bias, over the last axis in `groups` equal parts; the precision is that of x."""
    parts = x.reshape(*x.shape[:-1], groups, x.shape[-1] // groups)
    if kind == "layer":
        parts = parts - parts.mean(-1, keepdim=True)
    square = parts.pow(2)
    size = square.sum(-1, keepdim=True) if kind == "l2" else square.mean(-1, keepdim=True)
    return (parts * torch.rsqrt(size + eps)).reshape(x.shape)


def apply_norm(norm: Norm, x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None) -> torch.Tensor:
    """What `Norm` says, in the precision of x."""
    y = normalise(norm.kind, x, float(norm.eps.number), 1 if norm.groups is None else int(norm.groups.number))
    if weight is not None and norm.weight != "none":
        y = y * (weight + 1 if norm.weight == "one_plus" else weight)
    return y if bias is None else y + bias


def fit_norm(scene: Scene, x: torch.Tensor, y: torch.Tensor, events: Sequence[Event]) -> Fitted[Norm]:
    """The norm that makes `y` of `x`, both [..., width].

    Args:
        scene: holds the config that states epsilon.
        x: the input, normalised over its last axis.
        y: the output, of the same shape.
        events: what happened between the two; parameters and constants are read from them.

    Raises:
        UnexplainedError: no candidate is at rounding level.
    """
    place = events[-1].module if events else ""
    x, y = x.double(), y.double()
    vectors = _vectors(scene, x, events)
    scored = sorted(
        ((_error(y, x, candidate, vectors), candidate) for candidate in _candidates(scene, x, vectors, events)),
        key=lambda pair: pair[0],
    )
    if not scored or scored[0][0] > ROUNDING:
        best = tuple((f"{c.kind} {c.form} eps {c.eps:g}", error) for error, c in scored[:3])
        raise UnexplainedError(place, best, "is no known norm")
    error, chosen = scored[0] = _settled(scored, _epsilons(scene, events))
    eps = bind(scene.config, chosen.eps, EPS_KEYS)
    groups = None if chosen.groups == 1 else bind(scene.config, chosen.groups, _group_keys(scene))
    norm = Norm(kind=chosen.kind, eps=eps, weight=chosen.form, bias=chosen.bias is not None, groups=groups)
    uses = [(chosen.weight, "weight"), (chosen.bias, "bias")]
    return Fitted(
        value=norm,
        error=error,
        evidence=tuple(_evidence(scored, norm)),
        uses=tuple(ParameterUse(name, (target,)) for name, target in uses if name is not None),
    )


def _settled(scored: list[tuple[float, _Candidate]], order: list[float]) -> tuple[float, _Candidate]:
    """Epsilons that the numbers do not tell apart: the one that was written down first."""
    error, best = scored[0]
    equal = [(e, c) for e, c in scored if e <= UNDECIDED * error and replace(c, eps=best.eps) == best]
    return min(equal, key=lambda pair: order.index(pair[1].eps))


def _vectors(scene: Scene, x: torch.Tensor, events: Sequence[Event]) -> dict[str, torch.Tensor]:
    """The parameters of the events that can weigh the last axis (or the last axes) of x."""
    found = {}
    for seen in (seen for event in events for seen in event.ins):
        if seen.parameter is None or seen.parameter in found:
            continue
        vector = scene.parameter(seen.parameter).detach().double()
        shaped = _fitting(vector, seen.value, x)
        if shaped is not None:
            found[seen.parameter] = shaped
    return found


def _fitting(vector: torch.Tensor, used: torch.Tensor, x: torch.Tensor) -> torch.Tensor | None:
    if not vector.is_floating_point() or vector.numel() < 2:
        return None
    for shape in (vector.shape, used.shape, x.shape[-1:], x.shape[-2:]):
        if vector.numel() == torch.Size(shape).numel() and _broadcasts(torch.Size(shape), x.shape):
            return vector.reshape(shape)
    return None


def _broadcasts(shape: torch.Size, to: torch.Size) -> bool:
    if len(shape) > len(to) or shape[-1:] != to[-1:]:
        return False
    return all(a in {1, b} for a, b in zip(reversed(shape), reversed(to), strict=False))


def _candidates(
    scene: Scene, x: torch.Tensor, vectors: dict[str, torch.Tensor], events: Sequence[Event]
) -> Iterator[_Candidate]:
    used: list[tuple[str, str | None, str | None]] = [("none", None, None), *(("none", None, b) for b in vectors)]
    for weight in vectors:
        others: list[str | None] = [None, *(name for name in vectors if name != weight)]
        used += [(form, weight, bias) for form in ("plain", "one_plus") for bias in others]
    for kind, eps, groups in itertools.product(KINDS, _epsilons(scene, events), _groupings(x, events)):
        for form, weight, bias in used:
            yield _Candidate(kind, eps, groups, form, weight, bias)


def _epsilons(scene: Scene, events: Sequence[Event]) -> list[float]:
    """The constants that were seen decide; where none was, the config's."""
    seen = []
    for event in events:
        for leaf in (*event.args, *event.kwargs.values()):
            value = leaf.value.item() if isinstance(leaf, Seen) and leaf.value.numel() == 1 else leaf
            if isinstance(value, float) and 0 < value <= LARGEST_EPS:
                seen.append(value)
        if event.name == "rms_norm" and event.kwargs.get("eps", event.args[3] if len(event.args) > 3 else None) is None:
            seen.append(torch.finfo(torch.float32).eps)
    if not seen:
        seen = [float(value) for key in EPS_KEYS if isinstance(value := stated(scene.config, key), int | float)]
        seen += [1e-5, 1e-6, 1e-12, 0.0]
    return list(dict.fromkeys([*seen, *(10 * eps for eps in seen)]))


def _groupings(x: torch.Tensor, events: Sequence[Event]) -> list[int]:
    width, found = x.shape[-1], [1]
    for out in (out for event in events for out in event.outs):
        shape = out.value.shape
        if len(shape) >= 2 and shape[-1] > 1 and shape[-2] > 1 and shape[-1] * shape[-2] == width:
            found.append(shape[-2])
    return list(dict.fromkeys(found))


def _group_keys(scene: Scene) -> tuple[str, ...]:
    config = scene.config.to_dict() if hasattr(scene.config, "to_dict") else {}
    return tuple(key for key in config if "group" in key or "head" in key)


def _error(y: torch.Tensor, x: torch.Tensor, candidate: _Candidate, vectors: dict[str, torch.Tensor]) -> float:
    made = normalise(candidate.kind, x, candidate.eps, candidate.groups)
    if candidate.weight is not None:
        weight = vectors[candidate.weight]
        made = made * (weight + 1 if candidate.form == "one_plus" else weight)
    if candidate.bias is not None:
        made = made + vectors[candidate.bias]
    return float((made - y).abs().max() / y.abs().max().clamp_min(1e-30))


def _evidence(scored: list[tuple[float, _Candidate]], norm: Norm) -> Iterator[Evidence]:
    error, chosen = scored[0]
    axes = {"kind": chosen.kind, "weight": chosen.form, "bias": norm.bias, "eps": norm.eps.model_dump(mode="json")}
    for axis, value in axes.items():
        rival = next(((e, c) for e, c in scored if _on(axis, c) != _on(axis, chosen)), None)
        told = None if rival is None else _on(axis, rival[1])
        yield Evidence(
            path=axis,
            value=value,
            max_error=error,
            runner_up=Value(number=told).model_dump(mode="json") if axis == "eps" and rival else told,
            runner_up_error=None if rival is None else rival[0],
        )


def _on(axis: str, candidate: _Candidate) -> str | float | bool:
    return {
        "kind": candidate.kind,
        "weight": candidate.form,
        "bias": candidate.bias is not None,
        "eps": candidate.eps,
    }[axis]
