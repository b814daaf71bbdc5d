"""Context length as vLLM derives it.

Source: vLLM 0.32 `config/model.py:_get_and_verify_max_len` and `derive_max_model_len_and_key`: the smallest of the
known keys, times the factor of linear and dynamic scaling; YaRN and llama3 state the final length; LongRoPE starts
at the original one.
"""

from autoadapter.analyze.config import Config
from autoadapter.analyze.reading import Evidence, Reading
from autoadapter.analyze.rope_parameters import rope_parameters, stretches_context
from autoadapter.artifacts import Finding, Level
from autoadapter.errors import BrokenCheckpointError

KEYS = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length", "max_target_positions",
    "max_sequence_length", "max_seq_length", "seq_len", "n_ctx", "context_length",
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
    for parameters in rope_parameters(config):
        kind = parameters.text("rope_type", "type") or "default"
        factor = parameters.number("factor") or 1.0
        if kind in ("longrope", "su"):
            return _longrope(config, stated)
        if stretches_context(kind) and factor != 1.0 and "gemma3" not in model_type:
            length = int(stated * factor)
            if not 1 <= length < 2**31:
                problem = f"{kind} scaling by {factor:g} makes {length} tokens of {stated}, no context at all"
                raise BrokenCheckpointError(parameters.file, problem, hint="Mend factor in the file.")
            message = f"{kind} scaling by {factor:g} stretches {stated} tokens to {length}."
            return length, Finding(
                code="context.scaled", level=Level.INFO, message=message, source=parameters.source("factor")
            )
    return stated, None


def _longrope(config: Config, stated: int) -> tuple[int, Finding | None]:
    """LongRoPE models start in vLLM at the length before scaling, so that short texts keep their quality."""
    original = config.integer("original_max_position_embeddings")
    if original is None or original >= stated:
        return stated, None
    message = f"LongRoPE: vLLM serves {original} tokens by default; {stated} need --max-model-len {stated}."
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
