"""Fits a whole decoder and proves the fit by replaying it."""

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

import autoadapter
from autoadapter.artifacts.decoder import DecoderSpec, Evidence, Value
from autoadapter.probe.workers.clone import open_clone, probe_ids
from autoadapter.probe.workers.fit.binding import bind, stated
from autoadapter.probe.workers.fit.fitted import ParameterUse, UnexplainedError
from autoadapter.probe.workers.fit.layer import held
from autoadapter.probe.workers.fit.layers import FittedLayers, fit_layers, layer_ends
from autoadapter.probe.workers.fit.skeleton import Ends, fit_ends, watch
from autoadapter.probe.workers.replay import replay
from autoadapter.probe.workers.scene import Scene
from autoadapter.probe.workers.weights import Reads, find_sources, parameters_of

TOLERANCE = 1e-3
"""Largest difference of log-probabilities between the replayed spec and the reference."""
LONGER = 61
"""Tokens of the second replay: beyond the clone's original context length, within its positions."""
SIZE_KEYS = ("hidden_size", "n_embd", "d_model", "model_dim", "dim", "embed_dim")
DEPTH_KEYS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers")
LENGTH_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "n_ctx", "seq_length")


def fit_decoder(folder: Path, *, trust_remote_code: bool = False) -> DecoderSpec:
    """What the reference of a tiny clone computes.

    Args:
        folder: the clone: config, weights and, with remote code, that code.
        trust_remote_code: the folder's own code may run.

    Raises:
        UnexplainedError: a block fits no candidate, or the fitted decoder replayed is another than the reference.
    """
    model, config = open_clone(folder, trust_remote_code=trust_remote_code)
    return fit_scene(watch(model, config, probe_ids(config)), folder)


def fit_scene(scene: Scene, folder: Path) -> DecoderSpec:
    """The same for a reference that was watched already."""
    ends, layers = fit_ends(scene), fit_layers(scene)
    uses = (*_end_uses(ends), *layers.uses)
    spec = _assembled(scene, ends, layers)
    parameters = parameters_of([spec.kinds[kind] for kind in spec.pattern.kinds], held(scene), uses)
    error = _replay_error(spec, parameters, scene)
    _check_longer(spec, parameters, scene)
    weights, ignored = find_sources(spec, parameters, uses, folder, Reads(scene.model, scene.ids))
    return spec.model_copy(update={"weights": weights, "ignored": ignored, "replay_error": error})


def _assembled(scene: Scene, ends: Ends, layers: FittedLayers) -> DecoderSpec:
    config = scene.config
    named = getattr(scene.model.config, "architectures", None) or [type(scene.model).__name__]
    return DecoderSpec(
        tool_version=autoadapter.__version__,
        architecture=named[0],
        model_type=config.model_type,
        hidden_size=bind(config, _width(scene), SIZE_KEYS),
        vocab_size=bind(config, scene.logits.shape[-1], ("vocab_size",)),
        num_layers=bind(config, len(scene.layers), DEPTH_KEYS),
        max_positions=_longest(config),
        embedding=ends.embedding.value,
        kinds=layers.kinds,
        pattern=layers.pattern,
        norm=ends.norm.value if ends.norm else None,
        head=ends.head.value,
        weights=(),
        config_seen=_seen(config),
        evidence=(*_end_evidence(ends), *layers.evidence),
        replay_error=float("inf"),
        reference={"transformers": transformers.__version__, "torch": torch.__version__},
    )


def _seen(config: Any) -> dict[str, Any]:
    """The config as JSON, without the path that it was read from."""
    document = json.loads(json.dumps(config.to_dict(), default=str))
    document.pop("_name_or_path", None)
    return document


def _replay_error(spec: DecoderSpec, parameters: dict[str, Tensor], scene: Scene) -> float:
    made = replay(spec, parameters, scene.ids, scene.config, model=scene.model)
    difference = made.log_softmax(-1) - scene.logits[0].log_softmax(-1)
    error = float(difference.abs().max())
    if not error <= TOLERANCE:  # layers alone were replayed before: what is left are the ends
        why = "every layer replays, but the whole does not: embedding, positions, final norm or head"
        raise UnexplainedError("decoder", (("fitted", error),), why)
    return error


def _check_longer(spec: DecoderSpec, parameters: dict[str, Tensor], scene: Scene) -> None:
    """What begins only beyond the watched prompt (scales by position) must be refused: no fitter saw it."""
    longest = _longest(scene.config)
    ids = probe_ids(scene.model.config, min(LONGER, int(longest.number)) if longest else LONGER)
    with torch.no_grad():
        expected = scene.model(input_ids=ids, use_cache=False).logits[0].float()
    made = replay(spec, parameters, ids, scene.config, model=scene.model)
    error = float((made.log_softmax(-1) - expected.log_softmax(-1)).abs().max())
    if not error <= TOLERANCE:
        why = (
            f"fitted on {scene.ids.shape[1]} tokens, it differs on {ids.shape[1]}: something begins at a later position"
        )
        raise UnexplainedError("decoder", (("fitted", error),), why)


def _end_uses(ends: Ends) -> list[ParameterUse]:
    uses = [*ends.embedding.uses, *ends.head.uses]
    if ends.norm is not None:
        uses += [_renamed(use, "norm.") for use in ends.norm.uses]
    return uses


def _renamed(use: ParameterUse, prefix: str) -> ParameterUse:
    return ParameterUse(use.parameter, tuple(prefix + target for target in use.targets))


def _end_evidence(ends: Ends) -> list[Evidence]:
    parts: dict[str, Any] = {"embedding": ends.embedding, "norm": ends.norm, "head": ends.head}
    return [
        seen.model_copy(update={"path": f"{name}.{seen.path}"})
        for name, part in parts.items()
        if part is not None
        for seen in part.evidence
    ]


def _width(scene: Scene) -> int:
    return int(layer_ends(scene, 0)[0].shape[-1])


def _longest(config: Any) -> Value | None:
    for key in LENGTH_KEYS:
        value = stated(config, key)
        if isinstance(value, int) and value > 0:
            return Value(number=value, key=key)
    return None
