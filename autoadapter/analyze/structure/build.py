"""Puts the structure together."""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from autoadapter.analyze import kv_cache
from autoadapter.analyze.config import Config
from autoadapter.analyze.feed_forward import feed_forward_kinds
from autoadapter.analyze.layers import PARALLEL, STATE, layer_count, layer_kinds
from autoadapter.analyze.quantization.stated import config_of_record
from autoadapter.analyze.reading import Evidence
from autoadapter.analyze.structure.caches import layer_caches
from autoadapter.analyze.structure.encoders import find_encoders
from autoadapter.analyze.structure.estimate import LayerWeights, ends, layer_parts, predictor_bytes, weigh
from autoadapter.analyze.structure.language import family_config
from autoadapter.analyze.structure.measured import Measured, Serving, measure, with_stored_bytes
from autoadapter.analyze.structure.parts import LayerShape
from autoadapter.analyze.structure.schemes import read_schemes
from autoadapter.analyze.structure.states import LayerState, layer_state
from autoadapter.analyze.structure.unknown import unknown_sizes
from autoadapter.artifacts import LayerGroup, ModelStructure
from autoadapter.artifacts.model_profile import EmbeddingTraits, MemoryFacts


def build_structure(evidence: Evidence, embedding: EmbeddingTraits, memory: MemoryFacts) -> ModelStructure:
    """The structure of a model: weights from the headers where there are any, else from the configuration.

    Without groups of layers where sizes are unknown, so that nothing is added up of zeros.

    Args:
        evidence: the model.
        embedding: its vocabulary's ends.
        memory: what follows of its bytes; only the served type is used.
    """
    config, said = family_config(evidence), config_of_record(evidence)
    shapes = layer_shapes(config)
    state = layer_state(config, memory.served_dtype)
    schemes = read_schemes(said, config, memory.served_dtype)
    weights = [weigh(layer_parts(config, shape, state), shape.number, schemes) for shape in shapes]
    outside = ends(config, embedding, schemes)
    sizes = _Sizes(outside.embedding, outside.head, outside.other, predictor_bytes(config, shapes, schemes))
    measured = None
    if evidence.checkpoint.tensors:
        measured = measure(evidence.checkpoint, Serving(said is not None, embedding.tied, len(shapes)))
        weights = _from_headers(config, shapes, weights, measured)
        sizes = _Sizes(*(measured.places[place] for place in ("embedding", "head", "other", "predictor")))
    return ModelStructure(
        groups=() if unknown_sizes(evidence, embedding) else _groups(config, shapes, state, weights),
        embedding_bytes=sizes.embedding,
        head_bytes=sizes.head,
        other_bytes=sizes.other,
        predictor_bytes=sizes.predictor,
        encoders=find_encoders(evidence, measured),
        from_headers=measured is not None,
    )


class _Sizes(NamedTuple):
    """Bytes outside the layers."""

    embedding: int
    head: int
    other: int
    predictor: int


def layer_shapes(config: Config) -> tuple[LayerShape, ...]:
    """Number, mixer and token-wise block of every layer."""
    kinds = layer_kinds(config, layer_count(config)).kinds
    hybrids = accumulate((kind == PARALLEL for kind in kinds), initial=0)
    return tuple(map(LayerShape, range(len(kinds)), kinds, feed_forward_kinds(config, len(kinds)), hybrids))


def _from_headers(
    config: Config, shapes: Sequence[LayerShape], weights: Sequence[LayerWeights], measured: Measured
) -> list[LayerWeights]:
    found = []
    for shape, weight in zip(shapes, weights, strict=True):
        layer = measured.layers[shape.number]
        shares = layer.weights(_kv_part(config, shape))
        found.append(LayerWeights(with_stored_bytes(weight.operators, layer), shares))
    return found


def _kv_part(config: Config, shape: LayerShape) -> float:
    """Part of Q, K and V together that is K and V; 0 where keys and values are not those of cached heads."""
    if shape.mixer not in kv_cache.CACHED:
        return 0.0
    heads = kv_cache.layer_heads(config, shape.number, shape.mixer)
    keys = heads.kv_heads * (heads.key_dim + heads.value_dim)
    whole = keys + kv_cache.attention_heads(config) * heads.key_dim
    return keys / whole if whole else 0.0


def _groups(
    config: Config, shapes: Sequence[LayerShape], state: LayerState | None, weights: Sequence[LayerWeights]
) -> tuple[LayerGroup, ...]:
    entries = state.entries if state else ()
    alike: dict[LayerGroup, list[int]] = {}
    for shape, weight in zip(shapes, weights, strict=True):
        group = LayerGroup(
            layers=(),
            mixer=shape.mixer,
            feed_forward=shape.feed_forward,
            caches=layer_caches(config, shape.number, shape.mixer),
            states=entries if shape.mixer in (STATE, PARALLEL) else (),
            operators=weight.operators,
            weights=weight.shares,
        )
        alike.setdefault(group, []).append(shape.number)
    return tuple(group.model_copy(update={"layers": tuple(layers)}) for group, layers in alike.items())
