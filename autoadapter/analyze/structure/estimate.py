"""Layers, ends and predictors from the configuration alone."""

from typing import NamedTuple

from autoadapter.analyze.config import Config
from autoadapter.analyze.dense import layer_width
from autoadapter.analyze.kv_cache import HIDDEN
from autoadapter.analyze.layers import FULL, PARALLEL, SLIDING, STATE
from autoadapter.analyze.structure.attention import attention_parts
from autoadapter.analyze.structure.extras import extra_parts
from autoadapter.analyze.structure.parts import LayerShape, Matrix, Parts, Vector
from autoadapter.analyze.structure.recurrent import recurrent_parts
from autoadapter.analyze.structure.schemes import Quantization
from autoadapter.analyze.structure.states import LayerState
from autoadapter.analyze.structure.token_wise import token_wise_parts
from autoadapter.artifacts import Operator, WeightShares
from autoadapter.artifacts.model_profile import EmbeddingTraits

PREDICTORS = (
    "num_nextn_predict_layers", "num_mtp_layers", "mtp_num_layers", "mtp_num_hidden_layers", "_num_mtp_layers",
    "num_mtp_modules",
)  # fmt: skip
POSITIONS = {
    "gpt2": 0, "opt": 2, "gpt_bigcode": 0, "gpt_neo": 0, "bert": 0, "roberta": 0, "xlm-roberta": 0, "biogpt": 2,
    "distilbert": 0,
}  # fmt: skip
"""Families with a table of learned positions → rows beyond the stated ones."""
ENCODERS = {"bert", "roberta", "xlm-roberta", "distilbert", "electra", "camembert"}
"""Families whose embedding has a norm and token types."""
TAKING_TURNS = ("zamba", "zamba2")
"""Families whose attending layers take turns with a few stored blocks."""


class LayerWeights(NamedTuple):
    """Operators and shares of one layer."""

    operators: tuple[Operator, ...]
    shares: WeightShares


def layer_parts(config: Config, shape: LayerShape, state: LayerState | None) -> Parts:
    """Everything that a layer is made of."""
    parts = extra_parts(config, shape)
    if shape.mixer in (STATE, PARALLEL) and state is not None:
        parts = parts.plus(recurrent_parts(config, state.kind))
    block = attention_parts(config, shape) if shape.mixer not in (STATE, "none") else Parts()
    block = block.plus(token_wise_parts(config, shape.number, shape.feed_forward))
    if shape.mixer == PARALLEL and config.text("model_type") in TAKING_TURNS:
        return parts.plus(_taking_turns(config, shape, block))
    return parts.plus(block)


def _taking_turns(config: Config, shape: LayerShape, block: Parts) -> Parts:
    """A block of Zamba: one of few that are stored, what adapts it to this layer, and the way back into the stream."""
    hidden, rank = config.integer(*HIDDEN) or 0, config.integer("adapter_rank") or 0
    stored = shape.hybrids_before < (config.integer("num_mem_blocks") or 1)
    adapted = rank * (hidden + 2 * layer_width(config, shape.number)) if rank else 0
    own = Parts((Matrix("linear", "linear", hidden, hidden, "replicated"),), (Vector(adapted + hidden),))
    return own.plus(block if stored else block.not_stored())


def weigh(parts: Parts, layer: int, quantization: Quantization) -> LayerWeights:
    """Bytes of a layer as served."""
    shares = {"split": 0, "kv": 0, "replicated": 0, "experts": 0}
    operators = []
    for matrix in parts.matrices:
        operator = _operator(matrix, f"layers.{layer}.{matrix.module}", quantization)
        operators.append(operator)
        shares[matrix.split] += operator.weight_bytes + 2 * matrix.bias * matrix.copies * matrix.stored
    for vector in parts.vectors:
        shares[vector.split] += vector.elements * vector.bits // 8
    return LayerWeights(tuple(operators), WeightShares(**shares))


def _operator(matrix: Matrix, module: str, quantization: Quantization) -> Operator:
    scheme = quantization.scheme(module, matrix)
    return Operator(
        name=matrix.name,
        inputs=matrix.inputs,
        outputs=matrix.outputs,
        split=matrix.split,
        copies=matrix.copies,
        active=matrix.active,
        weight_bytes=matrix.copies * matrix.stored * scheme.stored(matrix.inputs, matrix.outputs),
        dtype=scheme.word,
    )


class Ends(NamedTuple):
    """Bytes at the ends of the model."""

    embedding: int
    head: int
    other: int


def ends(config: Config, embedding: EmbeddingTraits, quantization: Quantization) -> Ends:
    """Vocabulary tables, final norm and learned positions."""
    hidden, model_type = embedding.hidden_size, config.text("model_type") or ""
    width = config.integer("word_embed_proj_dim", "embedding_size") or hidden
    table = quantization.scheme("embed_tokens").stored(width, embedding.vocab_size)
    head = 0 if embedding.tied else quantization.scheme("lm_head").stored(width, embedding.vocab_size)
    other = hidden + (0 if width == hidden else 2 * width * hidden)
    if model_type in POSITIONS:
        rows = config.integer("max_position_embeddings", "n_positions", "n_ctx") or 0
        other += (rows + POSITIONS[model_type]) * hidden
    if model_type in ENCODERS:
        head = 0
        other += (2 + (config.integer("type_vocab_size") or 0)) * hidden + hidden * hidden
    per_layer, projection = _per_layer_inputs(config, hidden)
    return Ends(table + per_layer, head, 2 * other + projection + _stream_head(config, hidden))


def _per_layer_inputs(config: Config, hidden: int) -> tuple[int, int]:
    """Gemma-3n and 4: a table of vectors for every layer, and the projection into them."""
    width = config.integer("hidden_size_per_layer_input") or 0
    wide = width * (config.integer("num_hidden_layers") or 0)
    rows = config.integer("vocab_size_per_layer_input") or 0
    altup = 2 * (config.integer("altup_num_inputs") or 1) - 2 if config.found("altup_num_inputs") else 0
    return 2 * rows * wide, 2 * (hidden * wide + width + altup * hidden * hidden)


def _stream_head(config: Config, hidden: int) -> int:
    streams = config.integer("hc_mult") or 0
    return 4 * (streams * streams * hidden + streams + 1) if streams else 0


def predictor_bytes(config: Config, shapes: tuple[LayerShape, ...], quantization: Quantization) -> int:
    """Layers of multi-token prediction: one like the others each, behind a projection of two hidden states to one."""
    count = config.integer(*PREDICTORS) or 0
    attending = next((shape.mixer for shape in reversed(shapes) if shape.mixer in (FULL, SLIDING)), None)
    if not count or attending is None:
        return 0
    sparse = any(shape.feed_forward == "moe" for shape in shapes)
    shape = LayerShape(len(shapes), attending, "moe" if sparse else "dense")
    layer = weigh(layer_parts(config, shape, None), len(shapes), quantization).shares.total
    hidden = config.integer(*HIDDEN) or 0
    return min(count, MOST_PREDICTORS) * (layer + 2 * (2 * hidden * hidden + 3 * hidden))


MOST_PREDICTORS = 64
"""More than any model has."""
