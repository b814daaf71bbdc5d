"""The tokenizer adapter against the model folder: AUTOADAPTER_MODEL=FOLDER python -m pytest tests/test_tokenizer.py.

Written by AutoAdapter 0.1.0 from adapter/tests/test_tokenizer.py.j2; change the plan, not this file.
"""

import json
from pathlib import Path

import pytest
from tokenizer_adapter import ROLES, SPECIAL_TEXTS, SPECIAL_TOKENS, STOP_TOKEN_IDS, TokenizerAdapter

TWO_WAY_MAP = Path(__file__).parents[1] / "tokenizer" / "special_tokens.json"


@pytest.fixture(scope="module")
def adapter(model_folder: Path) -> TokenizerAdapter:
    """The adapter on the real tokenizer files."""
    return TokenizerAdapter.from_folder(model_folder)


def test_text_comes_back_unchanged(adapter: TokenizerAdapter, corpus: dict[str, str]) -> None:
    """A byte-level tokenizer loses nothing."""
    for name, text in corpus.items():
        ids = adapter.encode(text, add_special_tokens=False)
        assert adapter.decode(ids, skip_special_tokens=False) == text, name
        assert max(ids) < adapter.vocab_size, name


def test_special_tokens_are_single_ids(adapter: TokenizerAdapter) -> None:
    """Each special token is one id, both ways, and the map in `special_tokens.json` says the same."""
    for text, number in SPECIAL_TOKENS.items():
        assert adapter.encode(text, add_special_tokens=False) == [number], text
        assert adapter.decode([number], skip_special_tokens=False) == text
    assert {SPECIAL_TEXTS[number]: number for number in SPECIAL_TEXTS} == SPECIAL_TOKENS
    written = json.loads(TWO_WAY_MAP.read_text(encoding="utf-8"))
    assert {text: int(number) for number, text in written["by_id"].items()} == SPECIAL_TOKENS


def test_the_text_begins_with_bos_at_most_once(adapter: TokenizerAdapter) -> None:
    """A doubled begin token makes answers worse without any error."""
    bos = SPECIAL_TOKENS.get(ROLES.get("bos", ""))
    prefix = adapter.encode("")
    ids = adapter.encode("Hello")
    assert ids != prefix
    if bos is not None:
        assert ids.count(bos) == prefix.count(bos) <= 1
        assert prefix.count(bos) == 0 or ids[0] == bos


def test_stop_tokens_exist(adapter: TokenizerAdapter) -> None:
    """An answer can end: there is a stop token, and each one is in the vocabulary."""
    assert STOP_TOKEN_IDS
    for number in STOP_TOKEN_IDS:
        assert 0 <= number < adapter.vocab_size
        assert adapter.decode([number], skip_special_tokens=False)


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_batch_is_its_texts_with_padding(adapter: TokenizerAdapter, corpus: dict[str, str], side: str) -> None:
    """Padding goes to the side that is asked for and never into the text."""
    texts = list(corpus.values())
    batch = adapter.encode_batch(texts, padding_side="left" if side == "left" else "right")
    assert len({len(row) for row in batch.ids}) == 1
    for text, row, mask in zip(texts, batch.ids, batch.attention_mask, strict=True):
        assert [number for number, kept in zip(row, mask, strict=True) if kept] == adapter.encode(text)
        assert sorted(mask, reverse=side == "right") == mask


def test_truncation_keeps_the_asked_side(adapter: TokenizerAdapter, corpus: dict[str, str]) -> None:
    """Cut text keeps its special tokens and the beginning or the end."""
    text = corpus["code"]
    plain = adapter.encode(text, add_special_tokens=False)
    added = len(adapter.encode(text)) - len(plain)
    (kept_start,) = adapter.encode_batch([text], max_length=added + 4, truncation_side="right").ids
    (kept_end,) = adapter.encode_batch([text], max_length=added + 4, truncation_side="left").ids
    assert len(kept_start) == len(kept_end) == added + 4
    assert _contains(kept_start, plain[:4])
    assert _contains(kept_end, plain[-4:])


def _contains(row: list[int], part: list[int]) -> bool:
    return any(row[start : start + len(part)] == part for start in range(len(row) - len(part) + 1))


def test_a_chat_holds_its_messages_and_ends_its_turns(adapter: TokenizerAdapter) -> None:
    """The template keeps what people wrote, and an answered turn ends with a token at which the server stops."""
    question, answer = "What is the capital of France?", "Paris, of course."
    open_turn = adapter.render_chat([{"role": "user", "content": question}])
    assert question in open_turn
    messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    closed = adapter.render_chat(messages, add_generation_prompt=False)
    assert answer in closed
    after = closed[closed.rindex(answer) + len(answer) :]
    assert set(STOP_TOKEN_IDS) & set(adapter.encode(after, add_special_tokens=False))
    bos = ROLES.get("bos")
    assert not (bos and open_turn.startswith(bos * 2))
