"""Puts the structure together."""

from autoadapter.analyze import kv_cache
from autoadapter.analyze.layers import PARALLEL, STATE, layer_count, layer_kinds
from autoadapter.analyze.reading import Evidence
from autoadapter.artifacts import CacheEntry, LayerGroup, ModelStructure, WeightShares
from autoadapter.artifacts.model_profile import AttentionTraits, EmbeddingTraits, MemoryFacts, MoeTraits


def build_structure(
    evidence: Evidence,
    attention: AttentionTraits,
    embedding: EmbeddingTraits,
    moe: MoeTraits | None,
    memory: MemoryFacts,
) -> ModelStructure:
    """The structure of a model: weights spread evenly over its layers."""
    config = evidence.language
    kinds = layer_kinds(config, layer_count(config)).kinds
    table = 2 * embedding.vocab_size * embedding.hidden_size
    head = 0 if embedding.tied else table
    rest = max(0, memory.served_weight_bytes - table - head) // max(1, len(kinds))
    groups = []
    for kind in dict.fromkeys(kinds):
        layers = tuple(number for number, other in enumerate(kinds) if other == kind)
        groups.append(
            LayerGroup(
                layers=layers,
                mixer=kind,
                feed_forward="moe" if moe else "dense",
                caches=_caches(evidence, attention, layers[0], kind),
                weights=WeightShares(split=rest),
            )
        )
    return ModelStructure(groups=tuple(groups), embedding_bytes=table, head_bytes=head, from_headers=False)


def _caches(evidence: Evidence, attention: AttentionTraits, layer: int, kind: str) -> tuple[CacheEntry, ...]:
    if kind not in kv_cache.CACHED or kind == STATE:
        return ()
    latent = kv_cache.latent_elements(evidence.language)
    if latent is not None:
        return (CacheEntry(kind="mla", kv_heads=1, key_dim=latent, value_dim=0),)
    heads = kv_cache.layer_heads(evidence.language, layer, kind)
    word = "full_attention" if kind == PARALLEL else kind
    window = attention.sliding_window if word != "full_attention" else None
    return (
        CacheEntry.model_validate(
            {"kind": word, "kv_heads": heads.kv_heads, "key_dim": heads.key_dim, "value_dim": heads.value_dim}
            | {"window": window}
        ),
    )
