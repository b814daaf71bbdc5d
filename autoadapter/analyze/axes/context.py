"""Context length as vLLM derives it.

Source: vLLM 0.32 `config/model.py:_get_and_verify_max_len` and `derive_max_model_len_and_key`: the smallest of the
known keys, times the factor of every kind but YaRN and llama3, which state the final length; LongRoPE starts at the
original one. Nothing but GGUF's translation knows `n_ctx` and `context_length`.
"""

from autoadapter.analyze.config import Config
from autoadapter.analyze.reading import Evidence, Reading
from autoadapter.analyze.rope_parameters import rope_by_layer, rope_kind, stretches_context
from autoadapter.artifacts import Finding, Level
from autoadapter.errors import BrokenCheckpointError

KEYS = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length", "max_target_positions",
    "max_sequence_length", "max_seq_length", "seq_len",
)  # fmt: skip
DEFAULT = 2048
"""vLLM's own when no key is there."""
SANE_TOKENIZER_LENGTH = 10_000_000
"""transformers writes 1e30 for "no limit"."""


def read_context(evidence: Evidence) -> Reading:
    """`max_model_len` in tokens, and what disagrees with it."""
    config = evidence.language
    stated, source = _stated(config)
    length, why = _scaled(config, stated, evidence.model_type)
    findings = [finding for finding in (why, _tokenizer(evidence, length)) if finding is not None]
    if config.found(*KEYS) is None:
        message = f"The config states no context length; vLLM assumes {DEFAULT} tokens."
        findings.append(Finding(code="context.unknown", level=Level.WARNING, message=message, source=config.where))
    return Reading("max_model_len", length, {"": source}, tuple(findings))


def _stated(config: Config) -> tuple[int, str]:
    if own := config.integer("model_max_length"):
        return own, config.source("model_max_length")
    lengths = [(length, key) for key in KEYS if (length := config.integer(key))]
    length, key = min(lengths, default=(DEFAULT, KEYS[0]))
    return length, config.source(key)


def _scaled(config: Config, stated: int, model_type: str) -> tuple[int, Finding | None]:
    """The stated length times the factor of the last kind of layer that has one, as vLLM takes it."""
    objects = rope_by_layer(config)
    scaling = next(
        (one for one in reversed(objects) if stretches_context(rope_kind(one)) and "factor" in one.data), None
    )
    length, finding = stated, None
    if scaling is not None and "gemma3" not in model_type:
        length, finding = _stretched(scaling, stated, scaling.number("factor") or 1.0)
    if any(rope_kind(one) == "longrope" for one in objects):
        return _longrope(config, length)
    return length, finding


def _stretched(scaling: Config, stated: int, factor: float) -> tuple[int, Finding | None]:
    kind, source = rope_kind(scaling), scaling.source("factor")
    if factor == 1.0:
        return stated, None
    length = int(stated * factor)
    if not 1 <= length < 2**31:
        problem = f"{kind} scaling by {factor:g} makes {length} tokens of {stated}, no context at all"
        raise BrokenCheckpointError(scaling.file, problem, hint="Mend factor in the file.")
    if kind != "default":
        message = f"{kind} scaling by {factor:g} stretches {stated} tokens to {length}."
        return length, Finding(code="context.scaled", level=Level.INFO, message=message, source=source)
    message = (
        f"{source} is {factor:g} beside a rope_type that scales nothing: vLLM serves {length} tokens, and positions "
    )
    message += f"from {stated} on were never trained."
    hint = f"Serve with --max-model-len {stated}, or state the rope_type that the model was trained with."
    return length, Finding(code="context.factor-alone", level=Level.WARNING, message=message, hint=hint, source=source)


def _longrope(config: Config, length: int) -> tuple[int, Finding | None]:
    """LongRoPE models start in vLLM at the length before scaling, so that short texts keep their quality."""
    original = config.integer("original_max_position_embeddings")
    if original is None or original == length:
        return length, None
    message = f"LongRoPE: vLLM serves {original} tokens by default; {length} need --max-model-len {length}."
    source = config.source("original_max_position_embeddings")
    return original, Finding(code="context.longrope", level=Level.INFO, message=message, source=source)


def _tokenizer(evidence: Evidence, length: int) -> Finding | None:
    limit = evidence.json("tokenizer_config.json").get("model_max_length")
    if not isinstance(limit, int | float) or not 0 < limit < min(length, SANE_TOKENIZER_LENGTH):
        return None
    message = (
        f"The tokenizer's model_max_length is {int(limit)} and the model's context is {length}; vLLM takes {length}."
    )
    source = "tokenizer_config.json:model_max_length"
    return Finding(code="context.tokenizer-shorter", level=Level.INFO, message=message, source=source)
