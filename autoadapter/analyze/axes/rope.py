"""Rotary embedding: base, scaling, fraction. Spellings of transformers 3 to 5."""

from autoadapter.analyze.config import Config
from autoadapter.analyze.reading import Evidence, Reading
from autoadapter.analyze.rope_parameters import rope_parameters
from autoadapter.artifacts import Finding, Level
from autoadapter.artifacts.model_profile import RopeTraits

THETA = ("rope_theta", "rotary_emb_base", "rope_base", "attn_config.rope_theta", "rotary_base")
FRACTION = ("partial_rotary_factor", "rotary_pct", "rope_pct")
SAME_KIND = {("su", "longrope"), ("mrope", "default")}
"""Pairs of `type` and `rope_type` that vLLM 0.32 `patch_legacy_rope_type` takes for one."""
DEFAULT_THETA = 10000.0
"""The default of every transformers config class that omits it from the file."""
WITHOUT_ROPE = {
    "gpt2", "gpt_bigcode", "opt", "bloom", "mpt", "gpt_neo", "openai-gpt", "ctrl", "xglm", "biogpt", "bert", "roberta",
    "xlm-roberta", "t5", "bart", "mamba", "mamba2", "falcon_mamba", "jamba", "nemotron_h", "rwkv", "jais",
}  # fmt: skip
"""Families whose code has no rotary embedding (transformers' modelling files), whatever keys their configs carry."""


def read_rope(evidence: Evidence) -> Reading:
    """RoPE traits; None where positions enter in another way or not at all."""
    config = evidence.language
    reason = _without(config)
    if reason is not None:
        return Reading("rope", None, {"": reason})
    found = rope_parameters(config)
    first = found[0] if found else None
    traits = RopeTraits(
        theta=_theta(config, first),
        kind=(first and first.text("rope_type", "type")) or "default",
        factor=first.number("factor") if first else None,
        original_max_position_embeddings=_original(config, first),
        partial_rotary_factor=rotary_fraction(config, first),
    )
    return Reading("rope", traits, _sources(config, first), _findings(found))


def _without(config: Config) -> str | None:
    if config.text("model_type") in WITHOUT_ROPE:
        return config.source("model_type")
    if config.flag("alibi") or config.flag("attn_config.alibi"):
        return config.source("alibi", "attn_config.alibi")
    kind = config.text("position_embedding_type")
    return config.source("position_embedding_type") if kind not in (None, "rope", "rotary") else None


def _theta(config: Config, first: Config | None) -> float:
    inner = first.number("rope_theta") if first else None
    return float(inner or config.number(*THETA) or DEFAULT_THETA)


def _original(config: Config, first: Config | None) -> int | None:
    inner = first.integer("original_max_position_embeddings") if first else None
    return inner or config.integer("original_max_position_embeddings")


def rotary_fraction(config: Config, first: Config | None) -> float:
    """Share of a head's dimensions that is rotated.

    Args:
        config: of the language model.
        first: its RoPE parameters, None where it has none.
    """
    inner = first.number("partial_rotary_factor") if first else None
    stated = inner if inner is not None else config.number(*FRACTION)
    if stated is not None:
        return float(stated)
    width, head = config.integer("rotary_dim"), config.integer("head_dim")
    if head is None and (heads := config.integer("num_attention_heads", "n_head")):
        head = (config.integer("hidden_size", "n_embd") or 0) // heads
    return width / head if width and head else 1.0


def _sources(config: Config, first: Config | None) -> dict[str, str]:
    inner = first is not None and first.found("rope_theta") is not None
    return {
        "theta": first.source("rope_theta") if inner and first else config.source(*THETA),
        "kind": first.source("rope_type", "type") if first else config.source("rope_scaling"),
    }


def _findings(found: tuple[Config, ...]) -> tuple[Finding, ...]:
    notes = []
    if len(found) > 1:
        message = "Layer types have RoPE parameters of their own; the profile shows the first of them."
        notes.append(Finding(code="rope.per-layer", level=Level.INFO, message=message, source=found[0].where))
    for one in found:
        old, new = one.text("type"), one.text("rope_type")
        if old and new and old != new and (old, new) not in SAME_KIND:
            message = (
                f"rope_type is {new!r} and the older key type {old!r}; vLLM says: Found conflicts between them, and "
            )
            message += "does not start."
            hint = f"Remove the one that is wrong from {one.where}."
            notes.append(
                Finding(code="rope.type-conflict", level=Level.BLOCKER, message=message, hint=hint, source=one.where)
            )
        elif old and not new:
            message = "The older key `type` stands for rope_type; engines read it as an alias."
            notes.append(Finding(code="rope.old-key", level=Level.INFO, message=message, source=one.source("type")))
    return tuple(notes)
