"""Tokens with a role, from the small files beside a tokenizer."""

from collections.abc import Mapping
from typing import cast

from pydantic import JsonValue

from autoadapter.analyze.reading import Evidence
from autoadapter.analyze.tokenizer.facts import ROLES
from autoadapter.artifacts.model_profile import SpecialToken

CONFIG = "tokenizer_config.json"
MOST_DIGITS = 19
"""Of a token's id: 64 bits."""


def rows_of(value: JsonValue) -> list[dict[str, JsonValue]]:
    """The objects of a list; empty for anything else."""
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def whole_numbers(vocabulary: dict[str, JsonValue]) -> dict[str, int]:
    """The entries that are ids. The same object where all are: vocabularies are large."""
    if set(map(type, vocabulary.values())) <= {int}:
        return cast(dict[str, int], vocabulary)
    return {text: number for text, number in vocabulary.items() if type(number) is int}


def added_tokens(evidence: Evidence) -> dict[str, int]:
    """Text → id from `added_tokens.json` and `added_tokens_decoder` of tokenizer_config.json."""
    ids = dict(whole_numbers(evidence.json("added_tokens.json")))
    decoder = evidence.json(CONFIG).get("added_tokens_decoder")
    for number, row in decoder.items() if isinstance(decoder, dict) else ():
        if isinstance(row, dict) and number.isascii() and number.isdecimal() and len(number) < MOST_DIGITS:
            ids[str(row.get("content"))] = int(number)
    return ids


def special_tokens(evidence: Evidence, ids: Mapping[str, int]) -> tuple[SpecialToken, ...]:
    """Tokens that tokenizer_config.json or special_tokens_map.json give a role; the config is asked first."""
    config, table = evidence.json(CONFIG), evidence.json("special_tokens_map.json")
    added = added_tokens(evidence)
    tokens = []
    for role in ROLES:
        text = _content(config.get(f"{role}_token")) or _content(table.get(f"{role}_token"))
        if text is not None:
            tokens.append(SpecialToken(role=role, text=text, id=added.get(text, ids.get(text))))
    taken = {token.text for token in tokens}
    for text in _additional(config) or _additional(table):
        if text not in taken:
            taken.add(text)
            tokens.append(SpecialToken(role="additional", text=text, id=added.get(text, ids.get(text))))
    return tuple(tokens)


def _additional(document: Mapping[str, JsonValue]) -> list[str]:
    """`additional_special_tokens`, or what transformers 5 writes in its place: `extra_special_tokens`."""
    for key in ("additional_special_tokens", "extra_special_tokens"):
        value = document.get(key)
        items = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
        if found := [text for text in map(_content, items) if text is not None]:
            return found
    return []


def _content(value: JsonValue) -> str | None:
    content = value.get("content") if isinstance(value, dict) else value
    return content if isinstance(content, str) else None
