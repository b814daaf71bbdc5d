"""Tokenizer files of the Hub's layout. JSON and plain text are parsed; nothing is executed."""

import base64
import binascii

from pydantic import JsonValue

from autoadapter.analyze.reading import Evidence
from autoadapter.analyze.tokenizer.facts import ROLES, TokenizerFacts, TokenizerKind
from autoadapter.artifacts import Finding, Level
from autoadapter.artifacts.model_profile import SpecialToken

KNOWN_FILES = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "tokenizer.model",
    "tekken.json", "tokenizer.model.v3", "vocab.json", "merges.txt", "vocab.txt", "tiktoken.model", "spiece.model",
    "sentencepiece.bpe.model",
)  # fmt: skip
SENTENCEPIECE = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model.v3")

MOST_DIGITS = 19
"""Of a token's id: 64 bits."""


def read(evidence: Evidence) -> TokenizerFacts | None:
    """Facts of the first tokenizer that is there, in the order in which vLLM's tokenizer loader prefers them."""
    present = tuple(name for name in KNOWN_FILES if name in evidence.side_files)
    present += tuple(sorted(name for name in evidence.side_files if name.endswith(".tiktoken")))
    if "tokenizer.json" in present:
        return _fast(evidence, present)
    if "tekken.json" in present:
        return _tekken(evidence, present)
    for kind, sign in _signs(evidence, present):
        ids = _added(evidence) | _vocabulary(evidence, sign)
        size = max(ids.values(), default=-1) + 1 if _lists_all(sign) else None
        return TokenizerFacts(kind, present, size, _special(evidence, ids), ids, sign)
    return None


def _signs(evidence: Evidence, present: tuple[str, ...]) -> list[tuple[TokenizerKind, str]]:
    """Kind and telling file, for everything but tokenizer.json and tekken.json."""
    signs: list[tuple[TokenizerKind, str]] = []
    for name in present:
        if name in SENTENCEPIECE:
            data = evidence.side_files[name]
            signs.append(("sentencepiece", name) if not _is_tiktoken(data) else ("tiktoken", name))
        elif name.endswith((".tiktoken", "tiktoken.model")):
            signs.append(("tiktoken", name))
        elif name == "vocab.json":
            signs.append(("bpe-byte-level", name))
        elif name == "vocab.txt":
            signs.append(("wordpiece", name))
    if not signs and evidence.json("tokenizer_config.json").get("auto_map"):
        signs.append(("custom", "tokenizer_config.json"))
    return signs


def _is_tiktoken(data: bytes) -> bool:
    """Llama 3's `tokenizer.model` is lines of base64 and rank; SentencePiece's is a protobuf."""
    first = data.split(b"\n", 1)[0].split(b" ")
    try:
        return len(first) == 2 and first[1].isdigit() and bool(base64.b64decode(first[0], validate=True))
    except binascii.Error:
        return False


def _lists_all(sign: str) -> bool:
    return sign in ("vocab.json", "vocab.txt")


def _vocabulary(evidence: Evidence, sign: str) -> dict[str, int]:
    if sign == "vocab.json":
        return {text: number for text, number in evidence.json(sign).items() if isinstance(number, int)}
    if sign == "vocab.txt":
        return {line: number for number, line in enumerate((evidence.text(sign) or "").splitlines())}
    return {}


def _fast(evidence: Evidence, present: tuple[str, ...]) -> TokenizerFacts:
    document = evidence.json("tokenizer.json")
    added = {
        str(row.get("content")): number
        for row in _rows(document.get("added_tokens"))
        if isinstance(number := row.get("id"), int)
    }
    model = document.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    ids = dict(added)
    largest = max(added.values(), default=-1)
    if isinstance(vocabulary, dict):
        numbers = {text: number for text, number in vocabulary.items() if isinstance(number, int)}
        ids = numbers | ids
        largest = max(largest, max(numbers.values(), default=-1))
    elif isinstance(vocabulary, list):
        largest = max(largest, len(vocabulary) - 1)
        ids = {str(row[0]): number for number, row in enumerate(vocabulary) if isinstance(row, list) and row} | ids
    special = _special(evidence, ids)
    taken = {token.text for token in special}
    special += tuple(
        SpecialToken(role="additional", text=text, id=added[text])
        for row in _rows(document.get("added_tokens"))
        if row.get("special") is True and (text := str(row.get("content"))) in added and text not in taken
    )
    return TokenizerFacts(
        _fast_kind(document), present, largest + 1, special, ids, "tokenizer.json", _class_findings(evidence)
    )


def _rows(value: JsonValue) -> list[dict[str, JsonValue]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _fast_kind(document: dict[str, JsonValue]) -> TokenizerKind:
    model = document.get("model")
    kind = model.get("type") if isinstance(model, dict) else None
    if kind is None and isinstance(model, dict):
        kind = "BPE" if "merges" in model else "Unigram" if isinstance(model.get("vocab"), list) else "WordPiece"
    kinds: dict[str, TokenizerKind] = {"WordPiece": "wordpiece", "Unigram": "unigram", "WordLevel": "custom"}
    if kind == "BPE":
        return "bpe-byte-level" if _mentions(document, "ByteLevel", "pre_tokenizer", "decoder") else "bpe"
    return kinds.get(str(kind), "custom")


def _mentions(document: dict[str, JsonValue], word: str, *keys: str) -> bool:
    """Whether a text stands anywhere below the keys, however deep."""
    left = [document.get(key) for key in keys]
    while left:
        item = left.pop()
        if item == word:
            return True
        left += item if isinstance(item, list) else item.values() if isinstance(item, dict) else ()
    return False


def _tekken(evidence: Evidence, present: tuple[str, ...]) -> TokenizerFacts:
    """Mistral's tekken: special tokens come first, then the vocabulary up to `default_vocab_size`."""
    document = evidence.json("tekken.json")
    config = document.get("config")
    size = config.get("default_vocab_size") if isinstance(config, dict) else None
    rows = _rows(document.get("special_tokens"))
    ids = {str(row.get("token_str")): n for row in rows if isinstance(n := row.get("rank"), int)}
    ids = ids or {"<unk>": 0, "<s>": 1, "</s>": 2}
    roles = (("unk", "<unk>"), ("bos", "<s>"), ("eos", "</s>"), ("pad", "<pad>"))
    special = tuple(SpecialToken(role=role, text=text, id=ids[text]) for role, text in roles if text in ids)
    return TokenizerFacts("tekken", present, size if isinstance(size, int) else None, special, ids, "tekken.json")


def _added(evidence: Evidence) -> dict[str, int]:
    """`added_tokens.json` and `added_tokens_decoder` of tokenizer_config.json."""
    ids = {text: number for text, number in evidence.json("added_tokens.json").items() if isinstance(number, int)}
    decoder = evidence.json("tokenizer_config.json").get("added_tokens_decoder")
    for number, row in decoder.items() if isinstance(decoder, dict) else ():
        if isinstance(row, dict) and number.isascii() and number.isdecimal() and len(number) < MOST_DIGITS:
            ids[str(row.get("content"))] = int(number)
    return ids


def _special(evidence: Evidence, ids: dict[str, int]) -> tuple[SpecialToken, ...]:
    config, table = evidence.json("tokenizer_config.json"), evidence.json("special_tokens_map.json")
    ids = ids | _added(evidence)
    tokens = []
    for role in ROLES:
        text = _content(config.get(f"{role}_token")) or _content(table.get(f"{role}_token"))
        if text is not None:
            tokens.append(SpecialToken(role=role, text=text, id=ids.get(text)))
    taken = {token.text for token in tokens}
    more = config.get("additional_special_tokens") or table.get("additional_special_tokens")
    for text in map(_content, more if isinstance(more, list) else []):
        if text is not None and text not in taken:
            tokens.append(SpecialToken(role="additional", text=text, id=ids.get(text)))
    return tuple(tokens)


def _content(value: JsonValue) -> str | None:
    content = value.get("content") if isinstance(value, dict) else value
    return content if isinstance(content, str) else None


def _class_findings(evidence: Evidence) -> tuple[Finding, ...]:
    name = evidence.json("tokenizer_config.json").get("tokenizer_class")
    if name != "TokenizersBackend":
        return ()
    message = "tokenizer_class is TokenizersBackend, which only transformers 5 knows."
    hint = "Serve it with transformers 5 or newer beside vLLM."
    source = "tokenizer_config.json:tokenizer_class"
    return (Finding(code="tokenizer.class-v5", level=Level.INFO, message=message, hint=hint, source=source),)
