"""The config against the tensors: sizes that only one of them can be right about.

Careful on purpose: only plain names, and no shapes where a config keeps sizes apart by layer.
"""

import re
from collections import defaultdict

from autoadapter.analyze.axes import moe
from autoadapter.analyze.config import Config
from autoadapter.analyze.contradictions import contradictions
from autoadapter.analyze.headers.checkpoint import Checkpoint
from autoadapter.analyze.headers.tensor import TensorInfo
from autoadapter.analyze.layers import LAYERS
from autoadapter.analyze.reading import Evidence
from autoadapter.analyze.shapes import shape_conflicts, vocabulary_conflicts
from autoadapter.artifacts import Finding, Level
from autoadapter.artifacts.model_profile import AttentionTraits, MlpTraits

ROOTS = r"^((?:(?:model|language_model|text_model|transformer|gpt_neox|backbone|decoder|thinker)\.)*"
LAYER = re.compile(ROOTS + r"(?:layers|h|blocks|blk)\.)(\d+)\.")
PREDICTS_AHEAD = re.compile(r"(eh_proj|enorm|hnorm|nextn|mtp|shared_head|embed_tokens)")
"""In a layer of multi-token prediction, which is stored behind the counted ones (DeepSeek-V3, GLM-4.5, MiMo)."""
FUSED = re.compile(r"\.(qkv_proj|query_key_value|Wqkv|W_pack|c_attn|gate_up_proj|dense_h_to_4h)\.(weight|qweight)$")
FUSED_FAMILIES: dict[str, tuple[str, ...]] = {
    "phi3": ("qkv_proj", "gate_up_proj"), "phi3small": ("query_key_value",), "glm4": ("gate_up_proj",),
    "glm": ("gate_up_proj",), "chatglm": ("query_key_value", "dense_h_to_4h"), "baichuan": ("W_pack",),
    "gpt2": ("c_attn",), "gpt_bigcode": ("c_attn",), "qwen": ("c_attn",), "gpt_neox": ("query_key_value",),
    "bloom": ("query_key_value",), "falcon": ("query_key_value",), "mpt": ("Wqkv",), "dbrx": ("Wqkv",),
}  # fmt: skip
"""model_type → what its published checkpoints store as one tensor (transformers' modelling files)."""
EXPERT = re.compile(r"(?<!shared_)experts\.(\d+)\.")
ANY_EXPERT = r"expert|exps|moe|router"
BY_LAYER = re.compile(r"swa_|per_layer|block_configs|attention_other_setting|global_head_dim|_by_layer")
"""Keys of configs that keep sizes apart by layer."""
HINT = "The config belongs to another model, or the weights do."


def cross_check(evidence: Evidence, attention: AttentionTraits, width: MlpTraits | None) -> tuple[Finding, ...]:
    """Blockers that name both sides, and what a config contradicts in itself; encoder-decoders are left alone.

    Args:
        evidence: the model.
        attention: its attention, as the config has it.
        width: its MLP, as the config has it.
    """
    if evidence.root.flag("is_encoder_decoder"):
        return ()
    notes = contradictions(evidence)
    if not evidence.checkpoint.tensors:
        fused = _fused_by_family(evidence)
        return (*notes, fused) if fused else tuple(notes)
    by_layer = any(BY_LAYER.search(key) for key in evidence.language.data)
    checks = [_layers(evidence, attention.num_layers), _experts(evidence), _fused(evidence)]
    notes += [finding for finding in checks if finding is not None]
    notes += vocabulary_conflicts(evidence)
    notes += [] if by_layer else shape_conflicts(evidence, attention, width)
    return tuple(notes)


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
    for kind, members in checkpoint.kinds.items():
        match = LAYER.match(kind)
        if match is None:
            continue
        start = match.start(2)
        numbers = {int(info.name[start:].split(".", 1)[0]) for info in _one_expert(kind, members)}
        stacks[match[1]] |= numbers
        if PREDICTS_AHEAD.search(kind, match.end()):
            ahead |= numbers
    if len(stacks) != 1:
        return None
    return next(iter(stacks.values())), ahead


def _fused(evidence: Evidence) -> Finding | None:
    """Projections that are stored as one: what names their parts (LoRA targets, lists of modules) misses them."""
    matches = {match[1]: kind for kind in evidence.checkpoint.kinds if (match := FUSED.search(kind))}
    names = [name for name in matches if "experts" not in matches[name]]
    if not names:
        return None
    message = f"The checkpoint stores fused projections: {', '.join(names)}. Their parts have no tensors of their own."
    hint = f"Name {' and '.join(names)} as LoRA targets and in lists of modules, not their parts."
    source = f"tensor {matches[names[0]]}"
    return Finding(code="weights.fused", level=Level.INFO, message=message, hint=hint, source=source)


def _fused_by_family(evidence: Evidence) -> Finding | None:
    """The same where no tensor shows it: families that store nothing else."""
    names = FUSED_FAMILIES.get(evidence.model_type)
    if names is None:
        return None
    message = (
        f"{evidence.model_type} models store fused projections: {', '.join(names)}. Their parts have no tensors of "
    )
    message += "their own."
    hint = f"Name {' and '.join(names)} as LoRA targets and in lists of modules, not their parts."
    source = evidence.language.source("model_type")
    return Finding(code="weights.fused", level=Level.INFO, message=message, hint=hint, source=source)


def _one_expert(kind: str, members: list[TensorInfo]) -> list[TensorInfo]:
    """The members, of a kind of experts those of the first expert: there are a hundred times as many."""
    firsts = [info for info in members if ".experts.0." in info.name] if ".experts.0." in kind else []
    return firsts or members


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
    stored = max(map(_expert_number, _expert_members(checkpoint)), default=-1) + 1
    if said <= 1 or not stored or stored == said or config.found("block_configs") or config.integers(key):
        return None
    message = f"{config.source(key)} is {said}, and the weights have {stored} experts."
    return _conflict("moe.count-conflict", message, config.source(key))


def _expert_members(checkpoint: Checkpoint) -> list[TensorInfo]:
    """All tensors of the first kind that is there once for each expert."""
    return next((members for kind, members in checkpoint.kinds.items() if EXPERT.search(kind)), [])


def _expert_number(info: TensorInfo) -> int:
    match = EXPERT.search(info.name)
    return int(match[1]) if match else -1


def _speaks_of_experts(config: Config) -> bool:
    words = (*config.data, config.text("model_type") or "")
    return any("expert" in word or "moe" in word or "mixtral" in word for word in words)
