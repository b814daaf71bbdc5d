"""The config against the tensors: sizes that only one of them can be right about.

Careful on purpose: only plain names of the first layer, only floats (packed weights have other shapes) and GGML types
(whose shapes are those of the numbers), and nothing where a config keeps sizes apart by layer.
"""

import re
from collections import defaultdict
from collections.abc import Iterator

from autoadapter.analyze.axes import mlp, moe
from autoadapter.analyze.config import Config
from autoadapter.analyze.headers.checkpoint import Checkpoint
from autoadapter.analyze.headers.tensor import TensorInfo
from autoadapter.analyze.kv_cache import HEADS
from autoadapter.analyze.layers import LAYERS
from autoadapter.analyze.memory import FLOATS
from autoadapter.analyze.reading import Evidence
from autoadapter.artifacts import Finding, Level
from autoadapter.artifacts.model_profile import AttentionTraits, MlpTraits

ROOTS = r"^((?:(?:model|language_model|text_model|transformer|gpt_neox|backbone|decoder|thinker)\.)*"
LAYER = re.compile(ROOTS + r"(?:layers|h|blocks|blk)\.)(\d+)\.")
PREDICTS_AHEAD = re.compile(r"(eh_proj|enorm|hnorm|nextn|mtp|shared_head|embed_tokens)")
"""In a layer of multi-token prediction, which is stored behind the counted ones (DeepSeek-V3, GLM-4.5, MiMo)."""
QUERY = ROOTS + r"(?:layers\.0\.self_attn\.q_proj|blk\.0\.attn_q)\.weight)$"
GATE = ROOTS + r"(?:layers\.0\.mlp\.(?:gate_proj|up_proj)|blk\.0\.ffn_(?:gate|up))\.weight)$"
LFM2_GATE = ROOTS + r"layers\.0\.feed_forward\.w1\.weight)$"
EXPERT = re.compile(r"(?<!shared_)experts\.(\d+)\.")
ANY_EXPERT = r"expert|exps|moe|router"
BY_LAYER = re.compile(r"swa_|per_layer|block_configs|attention_other_setting|global_head_dim|_by_layer")
"""Keys of configs that keep sizes apart by layer."""
HINT = "The config belongs to another model, or the weights do."


def cross_check(evidence: Evidence, attention: AttentionTraits, width: MlpTraits | None) -> tuple[Finding, ...]:
    """Blockers that name both sides; none without tensors or for encoder-decoders.

    Args:
        evidence: the model.
        attention: its attention, as the config has it.
        width: its MLP, as the config has it.
    """
    if not evidence.checkpoint.tensors or evidence.root.flag("is_encoder_decoder"):
        return ()
    by_layer = any(BY_LAYER.search(key) for key in evidence.language.data)
    checks = [_layers(evidence, attention.num_layers), _experts(evidence)]
    checks += [] if by_layer else [_query(evidence, attention), _width(evidence, width)]
    return tuple(finding for finding in checks if finding is not None)


def _conflict(code: str, message: str, source: str) -> Finding:
    return Finding(code=code, level=Level.BLOCKER, message=message, hint=HINT, source=source)


def _layers(evidence: Evidence, stated: int) -> Finding | None:
    config = evidence.language
    if config.integer(*LAYERS) is None or config.found("block_configs"):
        return None
    stored = _stored_layers(evidence.checkpoint)
    if stored is None or not stated:
        return None
    layers, predictors = stored
    ahead = config.integer("num_nextn_predict_layers", "num_mtp_layers", "mtp_num_layers", "mtp_num_hidden_layers") or 0
    beyond = [layer for layer in layers - predictors if layer >= stated + ahead]
    missing = [layer for layer in range(stated) if layer not in layers]
    if not beyond and not missing:
        return None
    source = config.source(*LAYERS)
    if beyond:
        message = f"{source} is {stated}, and the weights have layers up to number {max(beyond)}, counted from 0."
    else:
        message = f"{source} is {stated}, and the weights have nothing of layer {missing[0]}, counted from 0."
    return _conflict("weights.layers", message, source)


def _stored_layers(checkpoint: Checkpoint) -> tuple[set[int], set[int]] | None:
    """Numbers of all layers, and of those that predict ahead; None where names show none, or several stacks."""
    stacks: dict[str, set[int]] = defaultdict(set)
    ahead: set[int] = set()
    for name in checkpoint.language:
        match = LAYER.match(name)
        if match is None:
            continue
        stacks[match[1]].add(int(match[2]))
        if PREDICTS_AHEAD.search(name, match.end()):
            ahead.add(int(match[2]))
    if len(stacks) != 1:
        return None
    return next(iter(stacks.values())), ahead


def _plain(checkpoint: Checkpoint, *patterns: str) -> Iterator[TensorInfo]:
    """The first matrix of each pattern whose shape is that of its numbers."""
    for info in map(checkpoint.find, patterns):
        if info is not None and len(info.shape) == 2 and (info.dtype in FLOATS or checkpoint.format == "gguf"):
            yield info


def _query(evidence: Evidence, traits: AttentionTraits) -> Finding | None:
    """The Q projection's rows; twice as many where it brings an output gate along (Qwen3-Next)."""
    config = evidence.language
    heads = config.integers(*HEADS)
    if config.found("kv_lora_rank") or (heads and len(set(heads)) > 1):
        return None
    rows = traits.num_attention_heads * traits.head_dim
    for info in _plain(evidence.checkpoint, QUERY):
        if rows and info.shape[0] not in (rows, 2 * rows):
            said = f"{traits.num_attention_heads} heads of {traits.head_dim}"
            message = f"{info.name} has {info.shape[0]} rows, and the config says {said}."
            return _conflict("attention.query-conflict", message, f"tensor {info.name}")
    return None


def _width(evidence: Evidence, traits: MlpTraits | None) -> Finding | None:
    config = evidence.language
    listed = config.integers(*mlp.WIDTH)
    width = listed[0] if listed else traits.intermediate_size if traits else 0
    patterns = (GATE, LFM2_GATE) if evidence.model_type == "lfm2" else (GATE,)
    for info in _plain(evidence.checkpoint, *patterns):
        if width and info.shape[0] != width:
            source = config.source(*mlp.WIDTH)
            message = f"{info.name} has {info.shape[0]} rows, and {source} makes it {width}."
            return _conflict("mlp.shape-conflict", message, f"tensor {info.name}")
    return None


def _experts(evidence: Evidence) -> Finding | None:
    config, checkpoint = evidence.language, evidence.checkpoint
    said, key = moe.expert_count(config)
    has = checkpoint.has(ANY_EXPERT)
    if said > 1 and not has:
        message = f"{config.source(key)} is {said}, and no tensor belongs to an expert."
        return _conflict("moe.no-experts", message, config.source(key))
    if said <= 1 and checkpoint.has(r"(^|\.)experts\.0\.|_exps\.") and not _speaks_of_experts(config):
        info = checkpoint.find(r"(^|\.)experts\.\d+\.|_exps\.")
        name = info.name if info else "an expert's tensor"
        message = f"{name} is stored, and {config.where} says nothing of experts."
        return _conflict("moe.unexplained", message, f"tensor {name}")
    stored = max((int(match[1]) for match in map(EXPERT.search, checkpoint.language) if match), default=-1) + 1
    if said <= 1 or not stored or stored == said or config.found("block_configs") or config.integers(key):
        return None
    message = f"{config.source(key)} is {said}, and the weights have {stored} experts."
    return _conflict("moe.count-conflict", message, config.source(key))


def _speaks_of_experts(config: Config) -> bool:
    words = (*config.data, config.text("model_type") or "")
    return any("expert" in word or "moe" in word or "mixtral" in word for word in words)
