"""Shapes of projections against the config, in every layer.

Tensors are looked at by kind, so that 100,000 of them cost no more than their layers. Only floats, whose shapes are
those of the numbers (packed weights have others), and GGML types.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from autoadapter.analyze import kv_cache
from autoadapter.analyze.axes import embedding, mlp
from autoadapter.analyze.config import Config
from autoadapter.analyze.headers.checkpoint import Checkpoint, is_head
from autoadapter.analyze.headers.tensor import TensorInfo
from autoadapter.analyze.layers import layer_count, layer_kinds
from autoadapter.analyze.reading import Evidence
from autoadapter.artifacts import Finding, Level
from autoadapter.artifacts.model_profile import AttentionTraits, MlpTraits

ROOTS = r"^(?:(?:model|language_model|text_model|transformer|gpt_neox|backbone|decoder|thinker)\.)*"
LAYER = re.compile(ROOTS + r"(?:layers|h|blocks|blk)\.(\d+)\.")
UNPACKED = {"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"}
HINT = "The config belongs to another model, or the weights do."
ATTENTION = r"layers\.0\.self_attn\."
SAME_ROWS_AS_CONFIG = ("mllama",)
"""Families whose embedding has more rows than `vocab_size`, in vLLM too (Mllama keeps 8 for its image token)."""


class Rule(NamedTuple):
    """What one side of a matrix must be."""

    pattern: str
    """Of a kind: the name with every index 0."""
    side: int
    """0 for rows (outputs), 1 for columns (inputs)."""
    allowed: tuple[int, ...]
    code: str
    says: str
    """The other side, as a clause."""


def shape_conflicts(evidence: Evidence, attention: AttentionTraits, width: MlpTraits | None) -> list[Finding]:
    """Blockers that name both sides, at most one for each rule.

    Args:
        evidence: the model.
        attention: its attention, as the config has it.
        width: its MLP, as the config has it.
    """
    rules = [*_attention(evidence, attention), *_mlp(evidence, width), *_inputs(evidence)]
    found = (_check(evidence, rule) for rule in rules if rule.allowed and min(rule.allowed) > 0)
    unique: dict[str, Finding] = {}
    for finding in found:
        if finding is not None:
            unique.setdefault(finding.source, finding)
    return list(unique.values())


def _attention(evidence: Evidence, traits: AttentionTraits) -> Iterator[Rule]:
    """Rows of Q, K, V and their fused form, columns of O; Q is twice as tall where it brings an output gate along."""
    config = evidence.language
    if config.found("kv_lora_rank") or _listed(config, *kv_cache.HEADS) or _listed(config, *kv_cache.KV_HEADS):
        return
    heads, key_heads, size = traits.num_attention_heads, traits.num_key_value_heads, traits.head_dim
    value = config.integer("v_head_dim") or size
    query, keys, values = heads * size, key_heads * size, key_heads * value
    said, shared = f"the config says {heads} heads of {size}", f"{key_heads} KV heads of"
    yield Rule(ROOTS + r"(?:layers\.0\.self_attn\.q_proj|blk\.0\.attn_q)\.weight$", 0, (query, 2 * query),
               "attention.query-conflict", said)  # fmt: skip
    code = "attention.shape-conflict"
    for name, short, rows, dim in (("k_proj", "attn_k", keys, size), ("v_proj", "attn_v", values, value)):
        pattern = ROOTS + rf"(?:layers\.0\.self_attn\.{name}|blk\.0\.{short})\.weight$"
        yield Rule(pattern, 0, (rows,), code, f"the config says {shared} {dim}")
    output = ROOTS + r"(?:layers\.0\.self_attn\.o_proj|blk\.0\.attn_output)\.weight$"
    yield Rule(output, 1, (heads * value,), code, f"the config says {heads} heads of {value}")
    fused = query + keys + values
    names = (
        r"(?:layers|h|blocks)\.0\.(?:self_attn|self_attention|attention|attn)\.(?:qkv_proj|query_key_value|Wqkv|W_pack)"
    )
    yield Rule(ROOTS + names + r"\.weight$", 0, (fused, fused + query), code, f"{said} and {shared} {size}")


def _mlp(evidence: Evidence, traits: MlpTraits | None) -> Iterator[Rule]:
    config = evidence.language
    if _listed(config, *mlp.WIDTH) or traits is None:
        return
    width, said = traits.intermediate_size, f"{config.source(*mlp.WIDTH)} makes it {traits.intermediate_size}"
    code = "mlp.shape-conflict"
    names = r"(?:layers\.0\.mlp\.(?:gate_proj|up_proj)|blk\.0\.ffn_(?:gate|up))"
    if evidence.model_type == "lfm2":
        names = r"(?:layers\.0\.feed_forward\.(?:w1|w3)|blk\.0\.ffn_(?:gate|up))"
    yield Rule(ROOTS + names + r"\.weight$", 0, (width,), code, said)
    yield Rule(ROOTS + r"(?:layers\.0\.mlp\.down_proj|blk\.0\.ffn_down)\.weight$", 1, (width,), code, said)
    yield Rule(ROOTS + r"layers\.0\.mlp\.gate_up_proj\.weight$", 0, (2 * width,), code, f"{said}, twice for both")


def _inputs(evidence: Evidence) -> Iterator[Rule]:
    """Every projection of the first kind starts from the hidden size."""
    config = evidence.language
    hidden = config.integer(*kv_cache.HIDDEN) or 0
    names = r"layers\.0\.(?:self_attn\.(?:[qkv]_proj|qkv_proj)|mlp\.(?:gate_proj|up_proj|gate_up_proj))\.weight$"
    said = f"{config.source(*kv_cache.HIDDEN)} makes it {hidden}"
    yield Rule(ROOTS + names, 1, (hidden,), "weights.width-conflict", said)
    outputs = r"layers\.0\.(?:self_attn\.o_proj|mlp\.down_proj)\.weight$"
    yield Rule(ROOTS + outputs, 0, (hidden,), "weights.width-conflict", said)


def _listed(config: Config, *keys: str) -> bool:
    """Sizes that differ by layer."""
    listed = config.integers(*keys)
    return listed is not None and len(set(listed)) > 1


def _check(evidence: Evidence, rule: Rule) -> Finding | None:
    wrong = [info for info in _attending(evidence, rule) if info.shape[rule.side] not in rule.allowed]
    if not wrong:
        return None
    first, what = wrong[0], ("rows", "columns")[rule.side]
    more = f" (and {len(wrong) - 1} more like it)" if len(wrong) > 1 else ""
    message = f"{first.name} has {first.shape[rule.side]} {what}{more}, and {rule.says}."
    return Finding(code=rule.code, level=Level.BLOCKER, message=message, hint=HINT, source=f"tensor {first.name}")


def _attending(evidence: Evidence, rule: Rule) -> Iterator[TensorInfo]:
    """Plain matrices of the rule, of layers that attend: recurrent ones may use the same names for other sizes."""
    config, matcher = evidence.language, re.compile(rule.pattern)
    kinds = layer_kinds(config, layer_count(config)).kinds
    for kind, members in evidence.checkpoint.kinds.items():
        if not matcher.search(kind):
            continue
        for info in members:
            match = LAYER.match(info.name)
            layer = int(match[1]) if match else 0
            attends = layer < len(kinds) and kinds[layer] in kv_cache.CACHED
            if _is_plain(evidence.checkpoint, info) and (attends or "self_attn" not in kind):
                yield info


def _is_plain(checkpoint: Checkpoint, info: TensorInfo) -> bool:
    return len(info.shape) == 2 and (info.dtype in UNPACKED or checkpoint.format == "gguf")


def vocabulary_conflicts(evidence: Evidence) -> list[Finding]:
    """Rows of the two ends that are not `vocab_size`: vLLM's loader wants them equal.

    Source: vLLM 0.32 `vocab_parallel_embedding.py:weight_loader`. Too few rows of the embedding are told by its axis.
    """
    config, checkpoint = evidence.language, evidence.checkpoint
    vocab = config.integer(*embedding.VOCABULARY)
    if not vocab or checkpoint.format == "gguf":
        return []
    table = checkpoint.find(embedding.EMBEDDING)
    head = next((checkpoint.tensors[name] for name in checkpoint.language if is_head(name)), None)
    notes = []
    if table is not None and _is_plain(checkpoint, table) and table.shape[0] > vocab:
        notes += [] if evidence.model_type.startswith(SAME_ROWS_AS_CONFIG) else [_rows(config, table, vocab)]
    if head is not None and _is_plain(checkpoint, head) and head.shape[0] != vocab:
        notes.append(_rows(config, head, vocab))
    return notes


def _rows(config: Config, info: TensorInfo, vocab: int) -> Finding:
    source = config.source(*embedding.VOCABULARY)
    message = f"{info.name} has {info.shape[0]} rows and {source} is {vocab}; vLLM's loader wants them equal."
    level = Level.BLOCKER if info.shape[0] < vocab else Level.WARNING
    hint = "Set vocab_size to the number of rows, or take the config that belongs to the weights."
    return Finding(code="embedding.rows-differ", level=level, message=message, hint=hint, source=f"tensor {info.name}")
