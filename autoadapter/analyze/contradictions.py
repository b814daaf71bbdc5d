"""Where a config contradicts itself, or the tensors contradict its dtype and modalities. Both sides are named.

Who wins was tried with transformers 5.19 (`PreTrainedConfig.from_dict`) and read in vLLM 0.32
`model_arch_config_convertor.py`: a canonical name beats the older one that an `attribute_map` points at it, `dtype`
beats `torch_dtype`, `rope_scaling` beats `rope_parameters`, and heads and experts have an order of their own.
"""

from collections.abc import Iterator
from typing import NamedTuple

from pydantic import JsonValue

from autoadapter.analyze.config import Config
from autoadapter.analyze.headers.checkpoint import NOT_PARAMETERS
from autoadapter.analyze.reading import Evidence
from autoadapter.artifacts import Finding, Level


class Aliases(NamedTuple):
    """Names of one thing; the first that is there counts."""

    keys: tuple[str, ...]
    reader: str


ALIASES = (
    Aliases(("hidden_size", "n_embd", "d_model"), "vLLM takes"),
    Aliases(("num_hidden_layers", "n_layer", "n_layers", "num_layers"), "vLLM takes"),
    Aliases(("num_attention_heads", "n_head", "n_heads"), "vLLM takes"),
    Aliases(
        ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num", "num_attention_groups"),
        "vLLM divides them by",
    ),
    Aliases(("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts"), "vLLM takes"),
    Aliases(("num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_topk", "moe_top_k"), "vLLM takes"),
    Aliases(("dtype", "torch_dtype"), "vLLM takes"),
    Aliases(("max_position_embeddings", "n_positions"), "vLLM takes the smaller, whatever its name, not"),
)
SHARED = (
    "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size",
    "intermediate_size", "max_position_embeddings",
)  # fmt: skip
"""Keys that a wrapper repeats for its language model; elsewhere they may be a tower's."""
ROPE_KEYS = ("rope_type", "type", "factor", "rope_theta", "original_max_position_embeddings")
TORCH_WORDS = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "F64": "float64"}
LARGEST_HALF = "65,504"
MODALITIES = (
    "vision_config", "audio_config", "vision_model_config", "visual", "vit_config", "thinker_config", "speech_config",
    "encoder_config", "image_config", "audio_encoder_config", "vision_tower_config", "mm_vision_tower", "vision_tower",
)  # fmt: skip
COMPOSITE = "ForConditionalGeneration"


def contradictions(evidence: Evidence) -> list[Finding]:
    """All of them; empty for a config that agrees with itself and the tensors."""
    return [
        *_aliases(evidence.language),
        *_rope(evidence.language),
        *_wrapper(evidence),
        *_dtype(evidence),
        *_modalities(evidence),
    ]


def _aliases(config: Config) -> Iterator[Finding]:
    if config.flag("is_encoder_decoder"):
        return
    for keys, reader in ALIASES:
        found = [(key, value) for key in keys if (value := config.get(key)) is not None]
        differing = next(((key, value) for key, value in found[1:] if not _same(value, found[0][1])), None)
        if differing is None:
            continue
        first, other = found[0], differing
        message = f"{first[0]} is {_shown(first[1])} and {other[0]} is {_shown(other[1])}; {reader} {first[0]}."
        hint = f"Remove {other[0]} from {config.where}, or make both equal."
        source = config.source(other[0])
        yield Finding(code="config.aliases", level=Level.WARNING, message=message, hint=hint, source=source)


def _same(one: JsonValue, other: JsonValue) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return one.removeprefix("torch.") == other.removeprefix("torch.")
    return one == other or isinstance(one, dict | list) or isinstance(other, dict | list)


def _shown(value: JsonValue) -> str:
    return str(value)[:40]


def _rope(config: Config) -> Iterator[Finding]:
    old, new = config.child("rope_scaling"), config.child("rope_parameters")
    if old is None or new is None or not old.data or not new.data:
        return
    key = next((key for key in ROPE_KEYS if (found := old.get(key)) is not None and found != new.get(key)), None)
    if key is None:
        return
    message = f"rope_scaling says {key} {_shown(old.get(key))} and rope_parameters {_shown(new.get(key))}; "
    message += "transformers 5 takes rope_scaling."
    hint = f"Remove one of them from {config.where}."
    yield Finding(code="rope.two-objects", level=Level.WARNING, message=message, hint=hint, source=new.where)


def _wrapper(evidence: Evidence) -> Iterator[Finding]:
    """Keys that stand at the top and in the language model's config with two values."""
    root, language = evidence.root, evidence.language
    if language is root:
        return
    keys = [key for key in SHARED if _differs(root.get(key), language.get(key))]
    if not keys:
        return
    said = ", ".join(f"{key} is {_shown(root.get(key))} and {_shown(language.get(key))}" for key in keys[:3])
    message = f"{said} in {root.where} and {language.where}; the language model's own count."
    yield Finding(code="config.wrapper-differs", level=Level.INFO, message=message, source=root.source(keys[0]))


def _differs(outer: JsonValue, inner: JsonValue) -> bool:
    return isinstance(outer, int | str) and isinstance(inner, int | str) and outer != inner


def _dtype(evidence: Evidence) -> Iterator[Finding]:
    """The config's dtype against what most of the plain weights are stored in."""
    stored = _stored_dtype(evidence)
    config = evidence.root if evidence.root.found("dtype", "torch_dtype") else evidence.language
    word = (config.text("dtype", "torch_dtype") or "").removeprefix("torch.")
    if stored is None or word not in TORCH_WORDS.values() or word == stored:
        return
    level, effect = Level.INFO, f"vLLM serves {'bfloat16' if word == 'float32' else word}"
    if word == "float16":
        level, effect = Level.WARNING, f"vLLM serves float16, where values above {LARGEST_HALF} overflow"
    source = config.source("dtype", "torch_dtype")
    message = f"{source} is {word}, and most weights are stored as {stored}; {effect}."
    hint = f"Serve with --dtype {stored} if the config is the one that is wrong." if level is Level.WARNING else None
    yield Finding(code="weights.dtype", level=level, message=message, hint=hint, source=source)


def _stored_dtype(evidence: Evidence) -> str | None:
    """torch's word for the dtype of most plain weights; None for quantized checkpoints and GGUF."""  # noqa: D403
    if evidence.checkpoint.format not in ("safetensors", "pytorch"):
        return None
    counts: dict[str, int] = {}
    for kind, members in evidence.checkpoint.kinds.items():
        if not NOT_PARAMETERS.search(kind):
            counts[members[0].dtype] = counts.get(members[0].dtype, 0) + members[0].elements * len(members)
    commonest = max(counts, key=lambda dtype: counts[dtype], default="")
    return TORCH_WORDS.get(commonest)


def _modalities(evidence: Evidence) -> Iterator[Finding]:
    """Composite classes without a tower: text-only quants of such families, in the config or in the weights."""
    root, checkpoint = evidence.root, evidence.checkpoint
    if not evidence.architecture.endswith(COMPOSITE) or root.flag("is_encoder_decoder"):
        return
    stored, key = checkpoint.towers, root.found(*MODALITIES)
    if key is not None and not checkpoint.tensors:
        return
    if stored and key is None:
        message = f"{stored[0]} belongs to an encoder, and {root.where} has no config of one."
        hint = "Take config.json from the model that the weights came from."
        yield Finding(
            code="model.no-encoder-config", level=Level.BLOCKER, message=message, hint=hint, source=root.where
        )
    elif not stored:
        what = f"{root.source(key)} is there" if key else f"{root.where} has no config of an encoder"
        message = f"The checkpoint is text-only: {what} and no tensor of an encoder is stored, "
        message += f"while {evidence.architecture} takes more than text."
        hint = "Serve text alone: --language-model-only; for images take the whole checkpoint."
        yield Finding(code="model.text-only", level=Level.WARNING, message=message, hint=hint, source=root.where)
