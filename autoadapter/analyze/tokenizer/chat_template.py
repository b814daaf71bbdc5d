"""The chat template's text and where it was found. It is looked at, never rendered."""

import re
from dataclasses import dataclass

from autoadapter.analyze.reading import Evidence

TEMPLATE_FILES = ("chat_template.jinja", "chat_template.json")
END_OF_TURN = re.compile(
    r"<\|[a-z_]*(?:im_end|eot_id|eot|end|end_of_turn|eos|return|call|endoftext)\|>|<end_of_turn>|<turn\|>"
)
"""Tokens that close a turn in the chat formats in use (ChatML, Llama 3, Phi, Gemma, gpt-oss)."""


@dataclass(frozen=True)
class ChatTemplate:
    """A Jinja template for chat."""

    text: str
    source: str

    def end_of_turn(self, known: frozenset[str]) -> str | None:
        """The token that most likely closes an assistant's turn, if the vocabulary has it."""
        names = [name for name in END_OF_TURN.findall(self.text) if name in known]
        return max(names, key=names.count) if names else None


def read(evidence: Evidence) -> ChatTemplate | None:
    """The template that transformers would take: the file beside the tokenizer, the tokenizer's config, GGUF."""
    if (text := evidence.text("chat_template.jinja")) is not None:
        return ChatTemplate(text, "chat_template.jinja")
    for name in ("chat_template.json", "tokenizer_config.json"):
        value = evidence.json(name).get("chat_template")
        if isinstance(value, str):
            return ChatTemplate(value, name)
        if isinstance(value, list):
            named = {row.get("name"): row.get("template") for row in value if isinstance(row, dict)}
            chosen = named.get("default") or next(iter(named.values()), None)
            if isinstance(chosen, str):
                return ChatTemplate(chosen, f"{name} (named templates)")
    inner = evidence.checkpoint.metadata.get("tokenizer.chat_template")
    return ChatTemplate(inner, "GGUF tokenizer.chat_template") if isinstance(inner, str) else None
