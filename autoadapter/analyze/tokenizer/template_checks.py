"""What whoever serves a chat template, or the lack of one, must know."""

from collections.abc import Iterator

from autoadapter.analyze.reading import Evidence
from autoadapter.analyze.tokenizer.chat_template import ChatTemplate
from autoadapter.artifacts import Finding, Level
from autoadapter.artifacts.model_profile import TokenizerTraits
from autoadapter.families import settings_for

GENERATES = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")
"""Ends of the class names of models that answer in words."""


def template_findings(
    evidence: Evidence, traits: TokenizerTraits, template: ChatTemplate | None, problem: str | None
) -> Iterator[Finding]:
    """All that is worth telling about a chat template.

    Args:
        evidence: the model's files.
        traits: what the profile will say of the tokenizer.
        template: the template, None when there is none.
        problem: why it could not be read, as the end of a sentence.
    """
    if template is None:
        yield from _none(evidence, traits)
        return
    if problem is not None:
        message = f"The chat template {problem}: requests for a chat would be refused."
        hint = "Take the template of the original model, or serve with --chat-template FILE."
        yield Finding(
            code="tokenizer.template-broken", level=Level.WARNING, message=message, hint=hint, source=template.source
        )
    yield from _shadowed(template)
    yield from _forced_think(traits, template)
    yield from _double_bos(traits, template)


def _none(evidence: Evidence, traits: TokenizerTraits) -> Iterator[Finding]:
    """A model that answers in words and has no template cannot be asked over /v1/chat/completions."""
    rows = settings_for(evidence.architecture, evidence.model_type)
    if traits.kind in ("none", "tekken") or any(row.flag == "tokenizer-mode" for _, row in rows):
        return
    level = Level.WARNING if evidence.architecture.endswith(GENERATES) else Level.INFO
    message = "The model has no chat template: /v1/chat/completions needs one, /v1/completions does not."
    hint = (
        "A base model needs none, and its instruction-tuned sibling (often named -it, -Instruct or -Chat) has one; "
        "for chat with this one, serve with --chat-template FILE."
    )
    yield Finding(code="tokenizer.no-template", level=level, message=message, hint=hint, source="tokenizer files")


def _shadowed(template: ChatTemplate) -> Iterator[Finding]:
    if template.shadowed is not None:
        message = f"{template.source} and {template.shadowed} hold different chat templates; the first is taken."
        hint = "Remove the one that is out of date."
        source = f"{template.source} and {template.shadowed}"
        yield Finding(
            code="tokenizer.template-shadowed", level=Level.WARNING, message=message, hint=hint, source=source
        )


def _forced_think(traits: TokenizerTraits, template: ChatTemplate) -> Iterator[Finding]:
    able = traits.template
    if able is None or not (able.forced_think or able.forced_think_switched):
        return
    when = "" if able.forced_think else f" when {able.thinking_switch} is set"
    message = (
        f"The chat template opens {able.think_tag} at the end of the prompt{when}: the answer holds the closing tag "
        "alone, and all before it is reasoning."
    )
    hint = "Serve with a --reasoning-parser that takes an answer without the opening tag."
    yield Finding(code="tokenizer.forced-think", level=Level.INFO, message=message, hint=hint, source=template.source)


def _double_bos(traits: TokenizerTraits, template: ChatTemplate) -> Iterator[Finding]:
    if not traits.double_bos:
        return
    message = "The chat template writes the BOS token, and the tokenizer adds another to texts that it encodes."
    hint = (
        "Keep both; encode rendered chats without special tokens (vLLM's chat endpoint does: add_special_tokens false)."
    )
    yield Finding(code="tokenizer.double-bos", level=Level.INFO, message=message, hint=hint, source=template.source)
