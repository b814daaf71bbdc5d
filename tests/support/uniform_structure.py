"""The structure of a model whose layers are alike, as `analyze` would find it; for profiles written by hand."""

from typing import Literal

from autoadapter.artifacts import CacheEntry, LayerGroup, ModelStructure, WeightShares
from autoadapter.artifacts.model_profile import AttentionTraits, EmbeddingTraits, MoeTraits


def uniform_structure(
    attention: AttentionTraits, embedding: EmbeddingTraits, moe: MoeTraits | None, size: int, element: float = 2
) -> ModelStructure:
    """Layers that are all alike, as `analyze` would find them; `element` is the bytes of a linear layer's number."""
    hidden = embedding.hidden_size
    table = 2 * embedding.vocab_size * hidden
    head = 0 if embedding.tied else table
    layers = attention.num_layers
    latent = attention.kind == "mla"
    kv = 0 if latent else int(element * 2 * hidden * attention.num_key_value_heads * attention.head_dim)
    sparse = layers - moe.num_dense_layers if moe else 0
    routed = int(element * 3 * hidden * moe.moe_intermediate_size * moe.num_experts) if moe else 0
    split = (size - table - head - sparse * routed) // layers - kv
    cache = CacheEntry(
        kind="mla" if latent else "full_attention",
        kv_heads=1 if latent else attention.num_key_value_heads,
        key_dim=attention.head_dim,
        value_dim=0 if latent else attention.head_dim,
    )
    dense = tuple(range(layers - sparse))
    groups: list[tuple[tuple[int, ...], Literal["dense", "moe"], int]] = [(dense, "dense", 0)] if dense else []
    groups += [(tuple(range(len(dense), layers)), "moe", routed)] if sparse else []
    return ModelStructure(
        groups=tuple(
            LayerGroup(
                layers=numbers,
                mixer="full_attention",
                feed_forward=feed_forward,
                caches=(cache,),
                weights=WeightShares(split=split, kv=kv, experts=experts),
            )
            for numbers, feed_forward, experts in groups
        ),
        embedding_bytes=table,
        head_bytes=head,
        from_headers=True,
    )
