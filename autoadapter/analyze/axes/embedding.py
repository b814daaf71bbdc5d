"""The vocabulary's two ends: rows, width, and whether the head shares the embedding."""

from autoadapter.analyze.headers.checkpoint import is_head
from autoadapter.analyze.headers.tensor import TensorInfo
from autoadapter.analyze.kv_cache import HIDDEN
from autoadapter.analyze.reading import Evidence, Reading
from autoadapter.artifacts import Finding, Level
from autoadapter.artifacts.model_profile import EmbeddingTraits

EMBEDDING = (
    r"(embed_tokens|word_embeddings|wte|embed_in|embeddings|tok_embeddings|embed_tokens_extend|token_embd)\.weight$"
)
VOCABULARY = ("vocab_size", "padded_vocab_size", "n_vocab")
TIE = ("tie_embedding", "tie_word_embeddings")
"""LFM2's own word comes first, as in its config class."""


def read_embedding(evidence: Evidence) -> Reading:
    """Embedding traits. The config that owns the language model decides the tie; stored tensors settle conflicts."""
    config = evidence.language
    stored = evidence.checkpoint.find(EMBEDDING)
    rows = stored.shape[0] if stored and len(stored.shape) == 2 else None
    vocab = config.integer(*VOCABULARY) or rows or 0
    tied, why = is_tied(evidence)
    traits = EmbeddingTraits(vocab_size=vocab, hidden_size=config.integer(*HIDDEN) or 0, tied=tied)
    sources = {
        "vocab_size": config.source(*VOCABULARY),
        "hidden_size": config.source(*HIDDEN),
        "tied": why,
    }
    checks = (_rows(stored, vocab), _width(stored, traits), _head(evidence, tied, stored))
    return Reading("embedding", traits, sources, tuple(finding for finding in checks if finding is not None))


def is_tied(evidence: Evidence) -> tuple[bool, str]:
    """Whether the head shares the embedding, and who says so."""
    config = evidence.language
    for level in (config.stated, evidence.root.stated):
        said = level.flag(*TIE)
        if said is not None:
            return said, level.source(*TIE)
    if evidence.checkpoint.tensors:
        has_head = any(map(is_head, evidence.checkpoint.tensors))
        return not has_head, f"tensor lm_head.weight is {'there' if has_head else 'absent'}"
    default = next((value for key in TIE if config.defaults and (value := config.defaults.values.get(key))), False)
    return default is True, config.defaults.source if config.defaults else config.source("tie_word_embeddings")


def _rows(stored: TensorInfo | None, vocab: int) -> Finding | None:
    if stored is None or len(stored.shape) != 2 or stored.shape[0] >= vocab:
        return None
    message = f"vocab_size is {vocab}, and {stored.name} has {stored.shape[0]} rows."
    hint = "Token ids above that would read beyond the table: the config or the file belongs to another model."
    source = f"tensor {stored.name}"
    return Finding(code="embedding.rows", level=Level.BLOCKER, message=message, hint=hint, source=source)


def _width(stored: TensorInfo | None, traits: EmbeddingTraits) -> Finding | None:
    if stored is None or len(stored.shape) != 2 or stored.dtype in ("I32", "U8"):
        return None
    if not traits.hidden_size or stored.shape[1] == traits.hidden_size or "embd_proj" in stored.name:
        return None
    message = f"hidden_size is {traits.hidden_size}, and {stored.name} is {stored.shape[1]} wide."
    source = f"tensor {stored.name}"
    return Finding(code="embedding.width", level=Level.WARNING, message=message, source=source)


def _head(evidence: Evidence, tied: bool, stored: TensorInfo | None) -> Finding | None:
    if not evidence.checkpoint.tensors or stored is None:
        return None
    head = next((name for name in evidence.checkpoint.tensors if is_head(name)), None)
    if tied and head is not None:
        message = f"The config ties the head to the embedding, and {head} is stored too; engines ignore one of them."
        return Finding(code="embedding.tied-head", level=Level.INFO, message=message, source=f"tensor {head}")
    if tied or head is not None or not evidence.architecture.endswith(("ForCausalLM", "ForConditionalGeneration")):
        return None
    if evidence.checkpoint.has(r"(^|\.)(head|output|lm_head\.\w+|score)(\.weight)?$"):
        return None
    message = "tie_word_embeddings is false, and the checkpoint stores no lm_head.weight."
    hint = "The head would be random. Check whether the model is meant to be tied."
    source = evidence.language.source("tie_word_embeddings")
    return Finding(code="embedding.no-head", level=Level.BLOCKER, message=message, hint=hint, source=source)
