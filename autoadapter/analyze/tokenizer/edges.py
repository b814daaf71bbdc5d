"""What a tokenizer puts before and behind a text, and on which side it pads and cuts.

Source: transformers 5.19 `tokenization_utils_base.py`: where there is a tokenizer.json, its post-processor decides, and
`add_bos_token` and `add_eos_token` of tokenizer_config.json are dropped. Without one they decide. (The Llama classes of
transformers 4 had it the other way round.)
"""

from collections.abc import Iterator, Mapping
from typing import get_args

from pydantic import JsonValue

from autoadapter.analyze.tokenizer.facts import Edges, Side
from autoadapter.analyze.tokenizer.special import rows_of

MOST_DEPTH = 8
Added = tuple[bool, bool]


def edges(
    config: Mapping[str, JsonValue], document: Mapping[str, JsonValue], bos: str | None, eos: str | None
) -> Edges:
    """Both ends of a text.

    Args:
        config: tokenizer_config.json.
        document: tokenizer.json; empty where there is none.
        bos: text of the BOS token.
        eos: text of the EOS token.
    """
    add_bos, add_eos = built_in(document, bos, eos) or stated(config) or (None, None)
    return Edges(
        add_bos=add_bos if add_bos is None else add_bos and bos is not None,
        add_eos=add_eos if add_eos is None else add_eos and eos is not None,
        padding_side=_side(config.get("padding_side")) or _direction(document, "padding"),
        truncation_side=_side(config.get("truncation_side")) or _direction(document, "truncation"),
    )


def stated(config: Mapping[str, JsonValue]) -> Added | None:
    """What tokenizer_config.json says of both; one that is left out counts as false beside one that is stated."""
    values = [config.get(key) for key in ("add_bos_token", "add_eos_token")]
    return (values[0] is True, values[1] is True) if any(isinstance(value, bool) for value in values) else None


def built_in(document: Mapping[str, JsonValue], bos: str | None, eos: str | None) -> Added | None:
    """What the post-processor of tokenizer.json adds; None where there is no tokenizer.json."""
    if not document:
        return None
    before: set[str] = set()
    behind: set[str] = set()
    for processor in _processors(document.get("post_processor"), MOST_DEPTH):
        if processor.get("type") in ("BertProcessing", "RobertaProcessing"):
            before |= _named(processor.get("cls"))
            behind |= _named(processor.get("sep"))
        seen = False
        for row in rows_of(processor.get("single")):
            token, seen = row.get("SpecialToken"), seen or "Sequence" in row
            if isinstance(token, dict):
                (behind if seen else before).add(str(token.get("id")))
    return bos in before, eos in behind


def _processors(value: JsonValue, depth: int) -> Iterator[dict[str, JsonValue]]:
    if isinstance(value, dict) and depth:
        yield value
        for inner in rows_of(value.get("processors")):
            yield from _processors(inner, depth - 1)


def _named(value: JsonValue) -> set[str]:
    """`["</s>", 2]` names its first item."""
    return {value[0]} if isinstance(value, list) and value and isinstance(value[0], str) else set()


def _side(value: JsonValue) -> Side | None:
    text = value.lower() if isinstance(value, str) else None
    return next((side for side in get_args(Side) if side == text), None)


def _direction(document: Mapping[str, JsonValue], key: str) -> Side | None:
    part = document.get(key)
    return _side(part.get("direction")) if isinstance(part, dict) else None
