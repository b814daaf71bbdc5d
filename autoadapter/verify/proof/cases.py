"""What a proof asks: prompts that cross the window and the prefill chunk, in batches of unequal lengths."""

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from autoadapter.artifacts.base import Frozen

LONGEST = 64
"""Tokens of a prompt with its continuation that a proof wants at most."""
SINGLE, CHUNK = 22, 24
"""A prompt that is prefilled at once, and how much of a prompt is computed in a step."""
CHUNKED = (40, 31)
"""Two, for vLLM does not cut a prompt that has the engine to itself."""
UNEQUAL = (13, 5)
DECODE = 12
USUAL_WINDOW = 8
FIRST_PLAIN_TOKEN, LAST_PLAIN_TOKEN = 3, 100
LENGTH_KEYS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_sequence_length")


class Cases(Frozen):
    """Batches of prompts by name; each prompt is continued by `decode` tokens of the engine's own choice."""

    batches: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...]
    decode: int = DECODE
    chunk: int = CHUNK
    """Most tokens of a prompt that the engine computes in a step, where it has more than one prompt."""
    max_model_len: int = LONGEST

    @property
    def rounds(self) -> list[list[list[int]]]:
        """The batches as lists, in order."""
        return [[list(prompt) for prompt in prompts] for _, prompts in self.batches]


def usual_cases(config: Mapping[str, Any], seed: int = 0) -> Cases:
    """Prompts that fit a tiny clone.

    Args:
        config: the clone's `config.json`.
        seed: of the token ids.
    """
    room = min([LONGEST, *(number for key, number in integers(config) if key in LENGTH_KEYS and number > DECODE + 1)])
    longest = room - DECODE
    window = smallest_window(config, longest)
    random, tokens = Random(seed), plain_tokens(config)

    def prompt(length: int) -> tuple[int, ...]:
        return tuple(random.choice(tokens) for _ in range(max(min(length, longest), 2)))

    batches = (
        ("single", (prompt(SINGLE),)),
        ("batch", tuple(prompt(length) for length in UNEQUAL)),
        ("chunked", tuple(prompt(length) for length in CHUNKED)),
        ("window", tuple(prompt(length) for length in (window - 1, window, window + 1))),
    )
    return Cases(batches=batches, max_model_len=room)


def smallest_window(config: Mapping[str, Any], longest: int) -> int:
    """The smallest attention window or chunk that the config states and a prompt can cross."""
    found = [
        number
        for key, number in integers(config)
        if ("window" in key or "attention_chunk" in key) and 2 < number < longest
    ]
    return min(found, default=USUAL_WINDOW)


def plain_tokens(config: Mapping[str, Any]) -> list[int]:
    """Token ids that no key of the config gives a meaning."""
    sizes = [number for key, number in integers(config) if key == "vocab_size" and number > FIRST_PLAIN_TOKEN]
    special = {number for key, number in integers(config) if key.endswith(("token_id", "token_ids", "token_index"))}
    top = min([LAST_PLAIN_TOKEN, *sizes])
    return [token for token in range(FIRST_PLAIN_TOKEN, top) if token not in special] or [0, 1]


def integers(node: Any, key: str = "") -> Iterator[tuple[str, int]]:
    """Every integer of a config, below lists and dicts too, with the nearest key."""
    if isinstance(node, Mapping):
        for name, child in node.items():
            yield from integers(child, str(name))
    elif isinstance(node, list):
        for child in node:
            yield from integers(child, key)
    elif isinstance(node, int) and not isinstance(node, bool):
        yield key, node
