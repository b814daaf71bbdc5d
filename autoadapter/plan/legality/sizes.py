"""Sizes that several rules look at."""

import re

from autoadapter.artifacts import LayerGroup, ModelProfile
from autoadapter.artifacts.model_structure import Operator
from autoadapter.once import once_each

VOCAB_PADDING = 64
"""Source: vLLM 0.32 `vocab_parallel_embedding.py` `DEFAULT_VOCAB_PADDING_SIZE`."""
ROW_PARALLEL = re.compile(r"(^|\.)(o_proj|out_proj|down_proj|wo_b|dense_4h_to_h|fc2|fc_out|c_proj|wo|w2)$")
"""Operators whose inputs tensor parallelism cuts; of every other split operator it cuts the outputs."""
FUSED_PARTS = {
    "gate_up_proj": 2,
    "up_gate_proj": 2,
    "in_proj_ba": 2,
    "qkv_proj": 0,
    "c_attn": 0,
    "Wqkv": 0,
    "query_key_value": 0,
}
"""Equal parts of a fused operator; 0 where the parts differ and the attention rules look at them instead."""
QUERY_PROJECTION = re.compile(r"(^|\.)(q_proj|q_b_proj)$")


def dense_width(profile: ModelProfile) -> int | None:
    """Width of the MLPs that tensor parallelism slices, None without any.

    Where every layer has experts `intermediate_size` is the experts' own width or unused; `expert_split_refusal` and
    expert parallelism look after those.
    """
    if profile.mlp is None or (profile.moe is not None and profile.moe.num_dense_layers == 0):
        return None
    return profile.mlp.intermediate_size


def is_latent(profile: ModelProfile) -> bool:
    """MLA, alone or beside recurrent layers: its cache is one latent, which tensor parallelism does not divide."""
    attention = profile.attention
    return attention.kind == "mla" or (attention.kind == "hybrid" and attention.kv_lora_rank is not None)


def split_dimension(operator: Operator) -> int:
    """The size that tensor parallelism divides: inputs of a row-parallel operator, else outputs of one part."""
    if ROW_PARALLEL.search(operator.name):
        return operator.inputs
    parts = FUSED_PARTS.get(operator.name.rpartition(".")[2], 1)
    return operator.outputs // parts if parts else 0


@once_each
def split_operators(profile: ModelProfile) -> tuple[tuple[LayerGroup, Operator], ...]:
    """Operators that tensor parallelism divides, with the layers that have them; each name and shape once."""
    found: dict[tuple[str, int, int], tuple[LayerGroup, Operator]] = {}
    for group in profile.structure.groups:
        for operator in group.operators:
            if operator.split == "split":
                found.setdefault((operator.name, operator.inputs, operator.outputs), (group, operator))
    return tuple(found.values())


@once_each
def kv_heads(profile: ModelProfile) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Key/value heads and the layers that have them, every distinct count; MLA and indexers have none."""
    found: dict[int, list[int]] = {}
    for group in profile.structure.groups:
        for cache in group.caches:
            if cache.kind not in ("mla", "indexer"):
                found.setdefault(cache.kv_heads, []).extend(group.layers)
    if not found and not is_latent(profile) and profile.attention.num_key_value_heads:
        found[profile.attention.num_key_value_heads] = list(range(profile.attention.num_layers))
    return tuple((heads, tuple(sorted(set(layers)))) for heads, layers in sorted(found.items()) if heads)


@once_each
def query_heads(profile: ModelProfile) -> tuple[int, ...]:
    """Attention heads, every distinct count of the model and of its layers."""
    found = {profile.attention.num_attention_heads}
    for group in profile.structure.groups:
        size = next((cache.key_dim for cache in group.caches if cache.kind not in ("mla", "indexer")), 0)
        for operator in group.operators:
            if size and QUERY_PROJECTION.search(operator.name) and operator.outputs % size == 0:
                found.add(operator.outputs // size)
    return tuple(sorted(found - {0}))
