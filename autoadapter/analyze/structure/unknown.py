"""Sizes that neither the config nor the class of its model type tells."""

from autoadapter.analyze.dense import dense_width
from autoadapter.analyze.experts import WIDTH
from autoadapter.analyze.feed_forward import feed_forward_kinds
from autoadapter.analyze.kv_cache import CACHED, attention_heads
from autoadapter.analyze.layers import layer_count, layer_kinds
from autoadapter.analyze.reading import Evidence
from autoadapter.analyze.structure.language import family_config
from autoadapter.artifacts import Finding, Level
from autoadapter.artifacts.model_profile import EmbeddingTraits


def unknown_sizes(evidence: Evidence, embedding: EmbeddingTraits) -> tuple[str, ...]:
    """Words for the sizes without which nothing can be added up; empty where all are known.

    Args:
        evidence: the model.
        embedding: its vocabulary's ends.
    """
    config = family_config(evidence)
    count = layer_count(config)
    attends = not count or any(kind in CACHED for kind in layer_kinds(config, count).kinds)
    sizes = {
        "layers": count,
        "hidden size": embedding.hidden_size,
        "vocabulary": embedding.vocab_size,
        "attention heads": attention_heads(config) or not attends,
    }
    if not evidence.checkpoint.tensors:
        blocks = feed_forward_kinds(config, count)
        sizes["width of the MLP"] = dense_width(config) or "dense" not in blocks
        sizes["width of the experts"] = config.integer(*WIDTH) or "moe" not in blocks
    return tuple(word for word, size in sizes.items() if not size)


def unknown_findings(evidence: Evidence, embedding: EmbeddingTraits) -> tuple[Finding, ...]:
    """That sizes are unknown, and which."""
    unknown = unknown_sizes(evidence, embedding)
    if not unknown:
        return ()
    config = evidence.language
    model_type = evidence.model_type or "none"
    message = f"The sizes of this model are unknown: {config.where} does not state its {', '.join(unknown)} under any "
    message += f"name that is known, and model_type {model_type} has no default for that. Its memory cannot be told."
    hint = "Check that config.json is the model's own and whole."
    finding = Finding(code="structure.unknown", level=Level.WARNING, message=message, hint=hint, source=config.where)
    return (finding,)
