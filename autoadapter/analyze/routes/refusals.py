"""Models that no route can serve, whatever the engine."""

from autoadapter.analyze.gguf_config import convertible, gguf_architecture
from autoadapter.analyze.routes.judgement import Judgement, not_served
from autoadapter.analyze.routes.subject import Subject
from autoadapter.engine.registry import Registry

NOT_GENERATIVE = (
    "Model", "ForSequenceClassification", "ForTokenClassification", "ForMaskedLM", "ForQuestionAnswering",
    "ForMultipleChoice", "ForPreTraining", "ForImageClassification", "ForAudioClassification", "ForRewardModel",
)  # fmt: skip


def refusal(subject: Subject, registry: Registry) -> Judgement | None:
    """Why no route can serve the model, or None."""
    for reason, source in (_by_files(subject), _by_name(subject, registry)):
        if reason is not None:
            return not_served("will_not_start", reason, source)
    return None


def _by_files(subject: Subject) -> tuple[str | None, str]:
    evidence = subject.evidence
    if evidence.checkpoint.format == "gguf" and evidence.checkpoint.metadata and not convertible(evidence.checkpoint):
        kind = gguf_architecture(evidence.checkpoint.metadata)
        reason = f"transformers cannot turn the GGUF architecture {kind!r} into a checkpoint that vLLM serves."
        return reason, "GGUF metadata: general.architecture"
    source = evidence.root.source("architectures")
    if not subject.name:
        inner = (evidence.language.texts("architectures") or ("none",))[0]
        reason = (
            f"{evidence.root.where} names no architectures (its language model: {inner}); "
            "vLLM cannot tell what to load without --hf-overrides."
        )
        return reason, source
    if evidence.root.flag("is_encoder_decoder"):
        reason = f"{subject.name} is an encoder-decoder model; AutoAdapter serves decoders that generate text."
        return reason, evidence.root.source("is_encoder_decoder")
    return None, source


def _by_name(subject: Subject, registry: Registry) -> tuple[str | None, str]:
    name, line = subject.name, registry.line(subject.name)
    if name in registry.speculative and name not in registry.text_generation:
        return f"{name} is a draft head for speculative decoding, not a model that answers alone.", line
    if name in registry.pooling - registry.served or _only_encodes(name, registry):
        return (
            f"{name} does not generate text (it encodes, classifies or scores); AutoAdapter serves models that do.",
            line,
        )
    return None, line


def _only_encodes(name: str, registry: Registry) -> bool:
    known = registry.served | set(registry.dropped)
    return name not in known and "LMHead" not in name and name.endswith(NOT_GENERATIVE)
