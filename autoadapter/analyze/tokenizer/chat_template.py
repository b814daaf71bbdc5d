"""The chat template's text and where it was found. It is looked at, never rendered."""

import re
from collections.abc import Container
from dataclasses import dataclass
from pathlib import PurePosixPath

from pydantic import JsonValue

from autoadapter.analyze.reading import Evidence
from autoadapter.analyze.sources.repository import is_named_template
from autoadapter.analyze.tokenizer.special import rows_of

JINJA = "chat_template.jinja"
TEMPLATE_FILES = (JINJA, "chat_template.json")
END_OF_TURN = re.compile(
    r"<\|[a-z_]*(?:im_end|eot_id|eot|end|end_of_turn|eos|return|call|endoftext)\|>|<end_of_turn>|<turn\|>"
)
"""Tokens that close a turn in the chat formats in use (ChatML, Llama 3, Phi, Gemma, gpt-oss)."""


@dataclass(frozen=True)
class ChatTemplate:
    """A Jinja template for chat."""

    text: str
    source: str
    named: tuple[str, ...] = ()
    """Names, where the tokenizer has several; `text` is that of `default`, or of the first."""
    shadowed: str | None = None
    """Another place that holds a template with another text, which nobody reads."""

    def end_of_turn(self, known: Container[str]) -> str | None:
        """The token that most likely closes an assistant's turn, if the vocabulary has it."""
        names = [name for name in END_OF_TURN.findall(self.text) if name in known]
        return max(names, key=names.count) if names else None


def read(evidence: Evidence) -> ChatTemplate | None:
    """The template that transformers would take: the file beside the tokenizer, the tokenizer's config, GGUF."""
    found = [template for template in _candidates(evidence) if template is not None]
    if not found:
        return None
    first = found[0]
    other = next((template.source for template in found[1:] if template.text != first.text), None)
    return ChatTemplate(first.text, first.source, first.named, other)


def _candidates(evidence: Evidence) -> list[ChatTemplate | None]:
    inner = evidence.checkpoint.metadata.get("tokenizer.chat_template")
    return [
        _of_files(evidence),
        *(
            _of(evidence.json(name).get("chat_template"), name)
            for name in ("chat_template.json", "tokenizer_config.json")
        ),
        ChatTemplate(inner, "GGUF tokenizer.chat_template") if isinstance(inner, str) else None,
    ]


def _of_files(evidence: Evidence) -> ChatTemplate | None:
    """The file beside the tokenizer, with the named ones of a folder; transformers 5.19 reads both."""
    jinja, files = evidence.text(JINJA), sorted(name for name in evidence.side_files if is_named_template(name))
    names = tuple(PurePosixPath(name).stem for name in files)
    if jinja is not None:
        return ChatTemplate(jinja, JINJA, ("default", *names) if names else ())
    if not files:
        return None
    first = files[names.index("default") if "default" in names else 0]
    return ChatTemplate(evidence.text(first) or "", first, names)


def _of(value: JsonValue, name: str) -> ChatTemplate | None:
    """One template, or the default of several."""
    if isinstance(value, str):
        return ChatTemplate(value, name)
    named = {str(row.get("name")): text for row in rows_of(value) if isinstance(text := row.get("template"), str)}
    chosen = named.get("default") or next(iter(named.values()), None)
    return None if chosen is None else ChatTemplate(chosen, f"{name} (named templates)", tuple(named))
