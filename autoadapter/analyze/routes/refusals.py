"""Models that no route can serve, whatever the engine."""

from dataclasses import replace

from autoadapter.analyze.gguf_config import convertible, gguf_architecture
from autoadapter.analyze.routes.judgement import Judgement, Outcome, not_served
from autoadapter.analyze.routes.subject import Subject
from autoadapter.analyze.routes.unnamed import unnamed
from autoadapter.engine.registry import Registry, is_encoder_decoder

NOT_GENERATIVE = (
    "Model", "ForSequenceClassification", "ForTokenClassification", "ForMaskedLM", "ForQuestionAnswering",
    "ForMultipleChoice", "ForPreTraining", "ForImageClassification", "ForAudioClassification", "ForRewardModel",
)  # fmt: skip


DECODERS = "Name a model that generates text from text, such as one whose architecture ends in ForCausalLM"
ORIGINAL = "Start from the original safetensors checkpoint of the model"
TRANSCRIBERS = {
    "WhisperForConditionalGeneration", "CohereAsrForConditionalGeneration", "FireRedASR2ForConditionalGeneration",
    "FunASRForConditionalGeneration", "MossTranscribeDiarizeForConditionalGeneration",
}  # fmt: skip
"""Architectures that vLLM serves for transcription alone: `supports_transcription_only` in vLLM 0.32's model files."""


def refusal(subject: Subject, registry: Registry) -> Judgement | None:
    """Why no route can serve the model, or None."""
    return (
        _by_files(subject)
        or _encoder_decoder(subject, registry)
        or unnamed(subject, registry)
        or _by_name(subject, registry)
    )


def _by_files(subject: Subject) -> Judgement | None:
    evidence = subject.evidence
    if evidence.checkpoint.format == "gguf" and evidence.checkpoint.metadata and not convertible(evidence.checkpoint):
        kind = gguf_architecture(evidence.checkpoint.metadata)
        reason = f"transformers cannot turn the GGUF architecture {kind!r} into a checkpoint that vLLM serves."
        return _refused("will_not_start", reason, "GGUF metadata: general.architecture", ORIGINAL)
    return None


def _encoder_decoder(subject: Subject, registry: Registry) -> Judgement | None:
    """Said by the config, else by the class of its model type, which leaves it out of the file."""
    root, name = subject.evidence.root, subject.name
    stated, model_type = root.flag("is_encoder_decoder"), root.text("model_type") or ""
    encodes = is_encoder_decoder(model_type) if stated is None else stated
    if not encodes and name not in TRANSCRIBERS:
        return None
    source = root.source("is_encoder_decoder" if stated else "model_type")
    kind = "is an encoder-decoder model" if encodes else "hears and writes down speech"
    title = name or f"model_type {model_type}"
    reason = f"{title} {kind}; AutoAdapter plans decoders that generate text from text"
    if name not in registry.served:
        plugin = registry.plugins.get(name)
        more = f" vLLM's maintainers point to a plugin for it: {plugin}" if plugin else ""
        return _refused("will_not_start", f"{reason}.{more}", source, DECODERS)
    task = "for transcription (/v1/audio/transcriptions)" if name in TRANSCRIBERS else "without AutoAdapter"
    reason += f". vLLM {registry.vllm_version} serves it {task}; its memory is not planned here."
    return _refused("not_generative", reason, registry.line(name), f"vllm serve {subject.location}")


def _by_name(subject: Subject, registry: Registry) -> Judgement | None:
    name, line = subject.name, registry.line(subject.name)
    if name in registry.speculative and name not in registry.text_generation:
        reason = f"{name} is a draft head for speculative decoding, not a model that answers alone."
        hint = "Name the model that it drafts for; vLLM takes the head by --speculative-config"
        return _refused("will_not_start", reason, line, hint)
    pools = name in registry.pooling - registry.served
    if not pools and not _only_encodes(name, registry):
        return None
    reason = f"AutoAdapter serves models that generate text; {name} encodes, classifies or scores"
    reason += f" (vLLM {registry.vllm_version} serves it as a pooling model)." if pools else "."
    hint = f"vllm serve {subject.location} --runner pooling" if pools else DECODERS
    return _refused("not_generative", reason, line, hint)


def _refused(outcome: Outcome, reason: str, source: str, hint: str) -> Judgement:
    return replace(not_served(outcome, reason, source), hint=hint)


def _only_encodes(name: str, registry: Registry) -> bool:
    known = registry.served | set(registry.dropped)
    return name not in known and "LMHead" not in name and name.endswith(NOT_GENERATIVE)
