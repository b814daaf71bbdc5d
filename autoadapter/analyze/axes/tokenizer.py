"""The tokenizer as its files describe it: kind, special tokens, stop tokens, chat template and what it can do."""

from autoadapter.analyze.reading import Evidence, Reading
from autoadapter.analyze.tokenizer import chat_template, files, gguf
from autoadapter.analyze.tokenizer.checks import TokenizerCase, tokenizer_findings
from autoadapter.analyze.tokenizer.facts import TokenizerFacts
from autoadapter.analyze.tokenizer.special import CONFIG
from autoadapter.analyze.tokenizer.stop import stop_tokens
from autoadapter.analyze.tokenizer.template_checks import template_findings
from autoadapter.analyze.tokenizer.template_traits import read_template
from autoadapter.artifacts.model_profile import TokenizerTraits

NO_LIMIT = 10**9
"""transformers writes 1e30 as `model_max_length` for "no limit"."""


def read_tokenizer(evidence: Evidence) -> Reading:
    """Tokenizer traits, and where the tokenizer and the model disagree."""
    facts = files.read(evidence) or gguf.read(evidence) or TokenizerFacts("none", ())
    template = chat_template.read(evidence)
    stop = stop_tokens(evidence, facts, template)
    abilities, problem = read_template(template.text, facts.token_text("bos")) if template else (None, None)
    traits = TokenizerTraits(
        kind=facts.kind,
        files=facts.files,
        vocab_size=facts.vocab_size,
        embedding_rows=evidence.language.integer("vocab_size", "padded_vocab_size", "n_vocab"),
        special_tokens=facts.special_tokens,
        stop_token_ids=stop.ids,
        stop_sources=stop.by_source,
        tokenizer_class=_text(evidence, "tokenizer_class"),
        slow_only=facts.kind not in ("none", "gguf", "tekken") and "tokenizer.json" not in facts.files,
        add_bos=facts.edges.add_bos,
        add_eos=facts.edges.add_eos,
        padding_side=facts.edges.padding_side,
        truncation_side=facts.edges.truncation_side,
        model_max_length=_longest(evidence),
        has_chat_template=template is not None,
        chat_template_source=template.source if template else None,
        chat_templates=template.named if template else (),
        template=abilities,
        double_bos=bool(abilities and abilities.emits_bos and facts.edges.add_bos),
    )
    sources = {"kind": facts.source, "stop_token_ids": stop.source}
    found = (
        *tokenizer_findings(TokenizerCase(evidence, facts, traits)),
        *template_findings(evidence, traits, template, problem),
    )
    return Reading("tokenizer", traits, sources, (*facts.findings, *stop.findings, *found))


def _text(evidence: Evidence, key: str) -> str | None:
    value = evidence.json(CONFIG).get(key)
    return value if isinstance(value, str) else None


def _longest(evidence: Evidence) -> int | None:
    value = evidence.json(CONFIG).get("model_max_length")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < NO_LIMIT:
        return None
    return int(value)
