"""What any tokenizer file can say."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from autoadapter.artifacts import Finding
from autoadapter.artifacts.model_profile import SpecialToken

TokenizerKind = Literal[
    "bpe-byte-level", "bpe", "sentencepiece", "wordpiece", "unigram", "tiktoken", "tekken", "gguf", "custom", "none"
]
ROLES = ("bos", "eos", "pad", "unk", "sep", "cls", "mask")
Side = Literal["left", "right"]


@dataclass(frozen=True)
class Edges:
    """What a tokenizer does at the two ends of a text. None where its files do not say."""

    add_bos: bool | None = None
    add_eos: bool | None = None
    padding_side: Side | None = None
    truncation_side: Side | None = None


@dataclass(frozen=True)
class TokenizerFacts:
    """A tokenizer as its files describe it."""

    kind: TokenizerKind
    files: tuple[str, ...]
    vocab_size: int | None = None
    """One more than the largest token id."""
    special_tokens: tuple[SpecialToken, ...] = ()
    ids: Mapping[str, int] = field(default_factory=dict)
    """Text → id of the added tokens, and of the whole vocabulary where the file lists it."""
    source: str = "no tokenizer file"
    findings: tuple[Finding, ...] = ()
    edges: Edges = Edges()

    def token_id(self, role: str) -> int | None:
        """Id of the token with a role."""
        return next((token.id for token in self.special_tokens if token.role == role), None)

    def token_text(self, role: str) -> str | None:
        """Text of the token with a role."""
        return next((token.text for token in self.special_tokens if token.role == role), None)
