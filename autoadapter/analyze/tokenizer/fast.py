"""tokenizer.json: the whole tokenizer as the `tokenizers` library writes it."""

from collections import ChainMap
from typing import NamedTuple

from pydantic import JsonValue

from autoadapter.analyze.reading import Evidence
from autoadapter.analyze.tokenizer.document import FILE, tokenizer_document
from autoadapter.analyze.tokenizer.edges import built_in, edges, stated
from autoadapter.analyze.tokenizer.facts import TokenizerFacts, TokenizerKind
from autoadapter.analyze.tokenizer.special import CONFIG, rows_of, special_tokens, whole_numbers
from autoadapter.artifacts import Finding, Level
from autoadapter.artifacts.model_profile import SpecialToken

Document = dict[str, JsonValue]


def read_fast(evidence: Evidence, present: tuple[str, ...]) -> TokenizerFacts:
    """Facts of tokenizer.json.

    Raises:
        BrokenCheckpointError: it is not a JSON object.
    """
    document = tokenizer_document(evidence)
    rows = [_added(row) for row in rows_of(document.pop("added_tokens", None))]
    added = {row.text: number for row in rows if isinstance(number := row.id, int)}
    vocabulary = _vocabulary(document)
    largest = max(max(vocabulary.values(), default=-1), max(added.values(), default=-1))
    ids = ChainMap(added, vocabulary)
    special = special_tokens(evidence, ids)
    taken = {token.text for token in special}
    special += tuple(
        SpecialToken(role="additional", text=row.text, id=added[row.text])
        for row in rows
        if row.special and row.text in added and row.text not in taken
    )
    texts = {token.role: token.text for token in special}
    found = (*_split(document, rows), *_rewritten(evidence, document, texts))
    ends = edges(evidence.json(CONFIG), document, texts.get("bos"), texts.get("eos"))
    return TokenizerFacts(_kind(document), present, largest + 1, special, ids, FILE, found, ends)


class _Added(NamedTuple):
    """A row of `added_tokens`, without what nobody asks for."""

    text: str
    id: JsonValue
    special: bool
    normalized: bool


def _added(row: Document) -> _Added:
    text, number = str(row.get("content")), row.get("id")
    return _Added(text, number, row.get("special") is True, row.get("normalized") is True)


def _vocabulary(document: Document) -> dict[str, int]:
    """Text → id: an object for BPE and WordPiece, a list of pairs of text and score for Unigram."""
    model = document.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocabulary, dict):
        return whole_numbers(vocabulary)
    if isinstance(vocabulary, list):
        return {str(row[0]): number for number, row in enumerate(vocabulary) if isinstance(row, list) and row}
    return {}


def _kind(document: Document) -> TokenizerKind:
    model = document.get("model")
    kind = model.get("type") if isinstance(model, dict) else None
    if kind is None and isinstance(model, dict):
        kind = "BPE" if "merges" in model else "Unigram" if isinstance(model.get("vocab"), list) else "WordPiece"
    kinds: dict[str, TokenizerKind] = {"WordPiece": "wordpiece", "Unigram": "unigram", "WordLevel": "custom"}
    if kind == "BPE":
        return "bpe-byte-level" if _mentions(document, "ByteLevel", "pre_tokenizer", "decoder") else "bpe"
    return kinds.get(str(kind), "custom")


def _mentions(document: Document, word: str, *keys: str) -> bool:
    """Whether a text stands anywhere below the keys, however deep."""
    left = [document.get(key) for key in keys]
    while left:
        item = left.pop()
        if item == word:
            return True
        left += item if isinstance(item, list) else item.values() if isinstance(item, dict) else ()
    return False


def _split(document: Document, rows: list[_Added]) -> list[Finding]:
    """Special tokens that a normalizer which prepends a space changes before they are looked for."""
    names = [row.text for row in rows if row.special and row.normalized]
    if not names or not _mentions(document, "Prepend", "normalizer"):
        return []
    message = (
        f"{len(names)} special tokens are marked normalized (such as {names[0]!r}), and the normalizer prepends to "
        "what it sees: they are found only behind a space and fall to pieces elsewhere."
    )
    hint = 'Set "normalized": false for them in tokenizer.json and tokenizer_config.json.'
    source = f"{FILE}:added_tokens"
    return [
        Finding(code="tokenizer.special-normalized", level=Level.WARNING, message=message, hint=hint, source=source)
    ]


def _rewritten(evidence: Evidence, document: Document, texts: dict[str, str]) -> list[Finding]:
    """What tokenizer_config.json says of BOS and EOS against what tokenizer.json does."""
    config = evidence.json(CONFIG)
    said, built = stated(config), built_in(document, texts.get("bos"), texts.get("eos"))
    does = {True: "adds", False: "does not add"}
    wrong = [
        f"add_{role}_token is {str(say).lower()} and the post-processor {does[do]} {texts[role]!r}"
        for role, say, do in zip(("bos", "eos"), said or (), built or (), strict=False)
        if role in texts and isinstance(config.get(f"add_{role}_token"), bool) and say != do
    ]
    if not wrong:
        return []
    message = f"{'; '.join(wrong)}: transformers 5 follows {FILE}, the Llama classes of transformers 4 the config."
    hint = "Make both say the same; texts that were encoded by an older release may begin or end otherwise."
    source = f"{CONFIG}:add_bos_token and {FILE}:post_processor"
    return [Finding(code="tokenizer.edges-conflict", level=Level.INFO, message=message, hint=hint, source=source)]
