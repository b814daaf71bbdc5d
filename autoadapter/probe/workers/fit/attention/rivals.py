"""For every fitted value the other ones that it could have had."""

from collections.abc import Iterator
from typing import Any

from autoadapter.artifacts.decoder import Attention, LatentAttention

Rival = tuple[str, Any]


def rivals(spec: Attention | LatentAttention) -> Iterator[Rival]:
    """(path, value in JSON form); several for a path where there is more than one other candidate."""
    document = spec.model_dump(mode="json")
    dim = int(spec.head_dim.number) if isinstance(spec, Attention) else int(spec.qk_nope_head_dim.number)
    usual = dim**-0.5
    scale = usual if abs(usual - spec.scale.number) > 1e-3 * usual else spec.scale.number * 1.1
    yield "scale", {"number": scale, "key": None, "form": "identity", "factor": 1.0}
    if spec.rope:
        yield "rope.style", "interleaved" if spec.rope.style == "neox" else "neox"
        yield "rope.theta", {**document["rope"]["theta"], "number": spec.rope.theta.number / 2, "key": None}
        if spec.rope.rope_type != "default":
            yield "rope.rope_type", "default"
        yield "rope", None
    if spec.window:
        yield "window", None
    if spec.gate:
        yield "gate.activation", "silu" if spec.gate.activation == "sigmoid" else "sigmoid"
    if isinstance(spec, Attention):
        yield from _softmax(spec, document)


def _softmax(spec: Attention, document: dict[str, Any]) -> Iterator[Rival]:
    if spec.softcap:
        yield "softcap", None
    if spec.alibi:
        yield "alibi.scaled", not spec.alibi.scaled
        yield "alibi", None
    if spec.sinks:
        yield "sinks", False
    for name in ("q_norm", "k_norm", "v_norm", "sub_norm"):
        if document[name]:
            yield f"{name}.kind", "layer" if document[name]["kind"] != "layer" else "rms"
            if document[name]["weight"] != "none":
                yield f"{name}.weight", "one_plus" if document[name]["weight"] == "plain" else "plain"
    if spec.q_norm and spec.rope and spec.norm_width != "full":
        yield "norm_after_rope", not spec.norm_after_rope
    if spec.key_scale:
        yield "key_scale", None
    for name in ("q_bias", "k_bias", "v_bias", "o_bias"):
        if document[name]:
            yield name, False
