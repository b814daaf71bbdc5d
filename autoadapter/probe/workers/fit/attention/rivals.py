"""For every fitted value the other ones that it could have had."""

from collections.abc import Iterator
from typing import Any

from autoadapter.artifacts.decoder import Attention, LatentAttention, Norm

Rival = tuple[str, Any]
NORMS = ("q_norm", "k_norm", "v_norm", "kv_norm", "sub_norm")
DROPPED: dict[str, Any] = {
    "window": None,
    "softcap": None,
    "alibi": None,
    "key_scale": None,
    "value_scale": None,
    "q_scale": None,
    "kv_scale": None,
    "sinks": False,
    "q_bias": False,
    "k_bias": False,
    "v_bias": False,
    "o_bias": False,
    "q_a_bias": False,
    "kv_a_bias": False,
}
"""What stands for the absence of a part."""


def rivals(spec: Attention | LatentAttention) -> Iterator[Rival]:
    """(path, value in JSON form); several for a path where there is more than one other candidate."""
    document = spec.model_dump(mode="json")
    yield "scale", {"number": _other_scale(spec), "key": None, "form": "identity", "factor": 1.0}
    free = _key_bias_is_free(document)
    yield from ((key, none) for key, none in DROPPED.items() if document.get(key) and not (key == "k_bias" and free))
    yield from _of_rope(document.get("rope"))
    yield from _of_norms(document)
    if spec.gate:
        yield "gate.activation", "silu" if spec.gate.activation == "sigmoid" else "sigmoid"
    if isinstance(spec, Attention) and spec.alibi:
        yield "alibi.scaled", not spec.alibi.scaled
    if isinstance(spec, Attention) and spec.rope and spec.norm_width != "full" and not _commutes(spec.q_norm):
        yield "norm_after_rope", not spec.norm_after_rope


def _commutes(norm: Norm | None) -> bool:
    """Whether a norm is the same before and after a rotation: it sees lengths alone."""
    return norm is None or (norm.weight == "none" and norm.kind != "layer")


def _key_bias_is_free(document: dict[str, Any]) -> bool:
    """Softmax does not see it where keys are used as projected: it adds the same to all scores of a query."""
    return not any(document.get(name) for name in ("rope", "k_norm", "softcap"))


def _other_scale(spec: Attention | LatentAttention) -> float:
    """1/√dim where the scale is another one, else a tenth more."""
    dim = spec.head_dim.number if isinstance(spec, Attention) else spec.qk_nope_head_dim.number
    usual, own = float(dim) ** -0.5, float(spec.scale.number)
    return usual if abs(usual - own) > 1e-3 * usual else own * 1.1


def _of_rope(rope: dict[str, Any] | None) -> Iterator[Rival]:
    if not rope:
        return
    yield "rope", None
    yield "rope.style", "interleaved" if rope["style"] == "neox" else "neox"
    yield "rope.theta", {**rope["theta"], "number": rope["theta"]["number"] / 2, "key": None}
    if rope["rope_type"] != "default":
        yield "rope.rope_type", "default"


def _of_norms(document: dict[str, Any]) -> Iterator[Rival]:
    for name in NORMS:
        norm = document.get(name)
        if not norm:
            continue
        yield f"{name}.kind", "rms" if norm["kind"] == "layer" else "layer"
        if norm["weight"] != "none":
            yield f"{name}.weight", "one_plus" if norm["weight"] == "plain" else "plain"
