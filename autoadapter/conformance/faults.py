"""Faults on purpose: what a proof must reject, or it proves nothing.

A fault is a small change of the fitted decoder, or of the weights that the engine reads and transformers does not.
"""

from collections.abc import Callable
from typing import Any

from autoadapter.artifacts.decoder import DecoderSpec

Fault = Callable[[DecoderSpec], DecoderSpec]
Document = dict[str, Any]
SCALE_FACTOR, THETA_FACTOR, EPSILON_FACTOR = 1.1, 0.5, 10.0
OTHER_ACTIVATION = {"silu": "gelu", "gelu": "silu", "relu": "silu", "gelu_pytorch_tanh": "silu", "gelu_new": "silu"}


def _of_every_mixer(name: str, change: Callable[[Document], None]) -> Fault:
    """A fault of all mixers of a kind; the decoder as it is where it has none."""

    def fault(spec: DecoderSpec) -> DecoderSpec:
        document = spec.model_dump(mode="json")
        for mixer in (branch["mixer"] for kind in document["kinds"] for branch in kind["branches"]):
            if mixer["mixer"] == name:
                change(mixer)
        return DecoderSpec.model_validate(document)

    return fault


def _of_every_norm(change: Callable[[Document], None]) -> Fault:
    """A fault of the norm before every branch."""

    def fault(spec: DecoderSpec) -> DecoderSpec:
        document = spec.model_dump(mode="json")
        for branch in (branch for kind in document["kinds"] for branch in kind["branches"]):
            if branch["input_norm"] is not None:
                change(branch["input_norm"])
        return DecoderSpec.model_validate(document)

    return fault


def _multiply(value: Document, factor: float) -> None:
    value.update(number=value["number"] * factor, key=None)


def _theta(mixer: Document) -> None:
    if mixer["rope"] is not None:
        _multiply(mixer["rope"]["theta"], THETA_FACTOR)
        mixer["rope"]["parameters"] = None


def _other_style(mixer: Document) -> None:
    if mixer["rope"] is not None:
        mixer["rope"]["style"] = "interleaved" if mixer["rope"]["style"] == "neox" else "neox"


def _other_activation(mixer: Document) -> None:
    mixer["activation"] = OTHER_ACTIVATION.get(mixer["activation"], "relu")


def _window(step: int) -> Callable[[Document], None]:
    def change(mixer: Document) -> None:
        if mixer["window"] is not None:
            mixer["window"]["size"].update(number=mixer["window"]["size"]["number"] + step, key=None)

    return change


def _no_rope_in_last_layer(spec: DecoderSpec) -> DecoderSpec:
    document = spec.model_dump(mode="json")
    kinds, pattern = document["kinds"], document["pattern"]
    last = DecoderSpec.model_validate(document).model_dump(mode="json")["kinds"][pattern["kinds"][-1]]
    for branch in last["branches"]:
        branch["mixer"].update({"rope": None} if "rope" in branch["mixer"] else {})
    last["name"] = "without_rope"
    for source in document["weights"]:
        source["kinds"] = [*source["kinds"], len(kinds)] if source["kinds"] else []
    pattern.update(kinds=[*pattern["kinds"][:-1], len(kinds)], rules=[], table=[])
    kinds.append(last)
    return DecoderSpec.model_validate(document)


def _final_norm_without_weight(spec: DecoderSpec) -> DecoderSpec:
    if spec.norm is None:
        return spec
    lost = tuple(source.checkpoint for source in spec.weights if source.targets == ("norm.weight",))
    return spec.model_copy(
        update={
            "norm": spec.norm.model_copy(update={"weight": "none"}),
            "weights": tuple(source for source in spec.weights if source.targets != ("norm.weight",)),
            "ignored": (*spec.ignored, *lost),
        }
    )


def _scaled_logits(spec: DecoderSpec) -> DecoderSpec:
    before = spec.head.scale.number if spec.head.scale else 1.0
    return spec.with_value("head.scale", {"number": before * SCALE_FACTOR})


def _scaled_embedding(spec: DecoderSpec) -> DecoderSpec:
    before = spec.embedding.scale.number if spec.embedding.scale else 1.0
    return spec.with_value("embedding.scale", {"number": before * SCALE_FACTOR})


FAULTS: dict[str, Fault] = {
    "rope_theta_halved": _of_every_mixer("attention", _theta),
    "no_rope_in_last_layer": _no_rope_in_last_layer,
    "attention_scale_x1.1": _of_every_mixer("attention", lambda mixer: _multiply(mixer["scale"], SCALE_FACTOR)),
    "rope_pairs_otherwise": _of_every_mixer("attention", _other_style),
    "norm_weight_plus_one": _of_every_norm(lambda norm: norm.update(weight="one_plus")),
    "final_norm_weight_dropped": _final_norm_without_weight,
    "activation_changed": _of_every_mixer("mlp", _other_activation),
    "norm_epsilon_x10": _of_every_norm(lambda norm: _multiply(norm["eps"], EPSILON_FACTOR)),
    "window_one_longer": _of_every_mixer("attention", _window(1)),
    "window_one_shorter": _of_every_mixer("attention", _window(-1)),
    "logits_x1.1": _scaled_logits,
    "embedding_x1.1": _scaled_embedding,
}
"""Name → fault. One that a decoder cannot have (a window where there is none) leaves it as it is."""


def exchanged(spec: DecoderSpec, one: str, other: str) -> dict[str, str]:
    """Checkpoint tensors that hold one parameter of a layer → those of another, for `edit`."""
    return dict(zip(tensors_of(spec, one), tensors_of(spec, other), strict=True))


def tensors_of(spec: DecoderSpec, parameter: str) -> list[str]:
    """Checkpoint tensors that hold nothing but `k_proj.weight`, one a layer."""
    sources = [source for source in spec.weights if len(source.targets) == 1 and source.experts == "none"]
    return [
        source.checkpoint.format(layer=layer)
        for source in sources
        if source.targets[0].endswith(f".{parameter}")
        for layer, kind in enumerate(spec.pattern.kinds)
        if not source.kinds or kind in source.kinds
    ]


WEIGHT_FAULTS: dict[str, Callable[[DecoderSpec], Document]] = {
    "gate_and_up_swapped": lambda spec: {"exchange": exchanged(spec, "gate_proj.weight", "up_proj.weight")},
    "keys_and_values_swapped": lambda spec: {"exchange": exchanged(spec, "k_proj.weight", "v_proj.weight")},
    "key_heads_swapped": lambda spec: {"swap_halves": tensors_of(spec, "k_proj.weight")},
}
"""Name → what `workers.subject.edit` changes in the copy that the engine reads."""
