"""Tokenizer files of the Hub's layout. JSON and plain text are parsed; nothing is executed."""

import base64
import binascii

from autoadapter.analyze.reading import Evidence
from autoadapter.analyze.tokenizer.document import FILE as TOKENIZER_JSON
from autoadapter.analyze.tokenizer.edges import edges
from autoadapter.analyze.tokenizer.facts import TokenizerFacts, TokenizerKind
from autoadapter.analyze.tokenizer.fast import read_fast
from autoadapter.analyze.tokenizer.sentencepiece import pieces
from autoadapter.analyze.tokenizer.special import CONFIG, added_tokens, special_tokens, whole_numbers
from autoadapter.analyze.tokenizer.tekken import FILE as TEKKEN
from autoadapter.analyze.tokenizer.tekken import read_tekken

KNOWN_FILES = (
    TOKENIZER_JSON, CONFIG, "special_tokens_map.json", "added_tokens.json", "tokenizer.model", TEKKEN, "vocab.json",
    "merges.txt", "vocab.txt", "tiktoken.model", "spiece.model", "sentencepiece.bpe.model",
)  # fmt: skip
SENTENCEPIECE = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model")
MISTRAL_MODEL = "tokenizer.model.v"
"""Mistral's numbered SentencePiece models: `tokenizer.model.v3`."""
MISTRAL_WEIGHTS = "consolidated"


def is_tokenizer_file(name: str) -> bool:
    """Whether a file of this name belongs to a tokenizer."""
    return name in KNOWN_FILES or name.endswith(".tiktoken") or name.startswith(MISTRAL_MODEL)


def tokenizer_files(evidence: Evidence) -> tuple[str, ...]:
    """Names of the tokenizer's files: the known ones in their order, then the others by name."""
    there = [name for name in evidence.repository.files() if is_tokenizer_file(name)]
    return (*(name for name in KNOWN_FILES if name in there), *sorted(set(there).difference(KNOWN_FILES)))


def read(evidence: Evidence) -> TokenizerFacts | None:
    """Facts of the tokenizer that vLLM would load; None when no file of one is there.

    Source: vLLM 0.32 `tokenizers/registry.py`: Mistral's own files where the weights are Mistral's, too; otherwise
    what transformers takes, tokenizer.json first.
    """
    present = tokenizer_files(evidence)
    if TEKKEN in present and (TOKENIZER_JSON not in present or _has_mistral_weights(evidence)):
        return read_tekken(evidence, present)
    if TOKENIZER_JSON in present:
        return read_fast(evidence, present)
    signs = _signs(evidence, present)
    return _slow(evidence, present, *signs[0]) if signs else None


def _has_mistral_weights(evidence: Evidence) -> bool:
    names = evidence.repository.files()
    return any(name.startswith(MISTRAL_WEIGHTS) and name.endswith(".safetensors") for name in names)


def _signs(evidence: Evidence, present: tuple[str, ...]) -> list[tuple[TokenizerKind, str]]:
    """Kind and telling file, for everything but tokenizer.json and tekken.json."""
    signs: list[tuple[TokenizerKind, str]] = []
    for name in present:
        if name in SENTENCEPIECE or name.startswith(MISTRAL_MODEL):
            signs.append(("tiktoken" if _is_tiktoken(evidence.side_files[name]) else "sentencepiece", name))
        elif name.endswith((".tiktoken", "tiktoken.model")):
            signs.append(("tiktoken", name))
        elif name == "vocab.json":
            signs.append(("bpe-byte-level", name))
        elif name == "vocab.txt":
            signs.append(("wordpiece", name))
    if not signs and evidence.json(CONFIG).get("auto_map"):
        signs.append(("custom", CONFIG))
    return signs


def _slow(evidence: Evidence, present: tuple[str, ...], kind: TokenizerKind, sign: str) -> TokenizerFacts:
    listed = _vocabulary(evidence, kind, sign)
    ids = (listed or {}) | added_tokens(evidence)
    ranks = _ranks(evidence.side_files[sign]) if kind == "tiktoken" else 0
    known = listed is not None or ranks
    size = max(ranks, max(ids.values(), default=-1) + 1) if known else None
    special = special_tokens(evidence, ids)
    texts = {token.role: token.text for token in special}
    ends = edges(evidence.json(CONFIG), {}, texts.get("bos"), texts.get("eos"))
    return TokenizerFacts(kind, present, size, special, ids, sign, edges=ends)


def _vocabulary(evidence: Evidence, kind: TokenizerKind, sign: str) -> dict[str, int] | None:
    """Text → id of the file; None where it does not list its words as text."""
    if sign == "vocab.json":
        return whole_numbers(evidence.json(sign))
    if sign == "vocab.txt":
        return {line: number for number, line in enumerate((evidence.text(sign) or "").splitlines())}
    found = pieces(evidence.side_files[sign]) if kind == "sentencepiece" else None
    return None if found is None else {text: number for number, text in enumerate(found)}


def _is_tiktoken(data: bytes) -> bool:
    """Llama 3's `tokenizer.model` is lines of base64 and rank; SentencePiece's is a protobuf."""
    first = data[:1024].split(b"\n", 1)[0].split(b" ")
    try:
        return len(first) == 2 and first[1].isdigit() and bool(base64.b64decode(first[0], validate=True))
    except binascii.Error:
        return False


def _ranks(data: bytes) -> int:
    """One more than the rank on the last line of a tiktoken file; 0 when it holds none."""
    last = data.rstrip()[-1024:].rsplit(b"\n", 1)[-1].split(b" ")
    return int(last[1]) + 1 if len(last) == 2 and last[1].isdigit() and len(last[1]) < 10 else 0
