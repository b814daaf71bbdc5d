"""The tokenizer as its files describe it: kind, special tokens, stop tokens, chat template."""

from autoadapter.analyze.reading import Evidence, Reading
from autoadapter.analyze.tokenizer import chat_template, files, gguf
from autoadapter.analyze.tokenizer.facts import TokenizerFacts
from autoadapter.analyze.tokenizer.stop import stop_tokens
from autoadapter.artifacts import Finding, Level
from autoadapter.artifacts.model_profile import TokenizerTraits


def read_tokenizer(evidence: Evidence) -> Reading:
    """Tokenizer traits, and where the tokenizer and the model disagree."""
    facts = files.read(evidence) or gguf.read(evidence) or TokenizerFacts("none", ())
    template = chat_template.read(evidence)
    stop = stop_tokens(evidence, facts, template)
    side = evidence.json("tokenizer_config.json").get("padding_side")
    traits = TokenizerTraits(
        kind=facts.kind,
        files=facts.files,
        vocab_size=facts.vocab_size,
        special_tokens=facts.special_tokens,
        stop_token_ids=stop.ids,
        padding_side=side if side in ("left", "right") else None,
        has_chat_template=template is not None,
        chat_template_source=template.source if template else None,
    )
    sources = {"kind": facts.source, "stop_token_ids": stop.source}
    checks = (_absent(evidence, facts), _no_template(template), *_vocabulary(evidence, facts))
    found = tuple(finding for finding in checks if finding is not None)
    return Reading("tokenizer", traits, sources, (*facts.findings, *stop.findings, *found))


def _absent(evidence: Evidence, facts: TokenizerFacts) -> Finding | None:
    if facts.kind != "none":
        return None
    message = f"{evidence.repository.location} holds no tokenizer: vLLM cannot turn text into tokens."
    hint = "Add tokenizer.json and tokenizer_config.json of the model."
    source = evidence.repository.location
    return Finding(code="tokenizer.none", level=Level.BLOCKER, message=message, hint=hint, source=source)


def _no_template(template: chat_template.ChatTemplate | None) -> Finding | None:
    if template is not None:
        return None
    message = "The model has no chat template: /v1/chat/completions needs one, /v1/completions does not."
    hint = "A base model needs none; for chat, serve with --chat-template FILE."
    return Finding(code="tokenizer.no-template", level=Level.INFO, message=message, hint=hint, source="tokenizer files")


def _vocabulary(evidence: Evidence, facts: TokenizerFacts) -> list[Finding]:
    """Token ids beyond the embedding are wrong; embedding rows beyond the vocabulary are padding."""
    rows = evidence.language.integer("vocab_size", "padded_vocab_size", "n_vocab")
    if rows is None or facts.vocab_size is None or facts.vocab_size == rows:
        return []
    if facts.vocab_size > rows:
        message = f"The tokenizer knows {facts.vocab_size} tokens, and the embedding has {rows} rows (vocab_size)."
        hint = "Some texts would end in a crash: the tokenizer belongs to another model or was extended."
        source = f"{facts.source} and {evidence.language.source('vocab_size')}"
        return [Finding(code="tokenizer.vocab-larger", level=Level.BLOCKER, message=message, hint=hint, source=source)]
    message = f"The embedding has {rows} rows for {facts.vocab_size} tokens; the rest is padding."
    source = evidence.language.source("vocab_size")
    return [Finding(code="tokenizer.vocab-padded", level=Level.INFO, message=message, source=source)]
