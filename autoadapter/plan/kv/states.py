"""Bytes of a recurrent layer's state on one rank.

Source: vLLM 0.32 `model_executor/layers/mamba/mamba_utils.py`.
"""

from collections.abc import Iterable

from autoadapter.artifacts import ModelStructure, StateEntry
from autoadapter.once import once_each
from autoadapter.plan.kv.question import MODE_BLOCKS, KvQuestion
from autoadapter.plan.kv.spec import Reach

CONVOLVED_TOKENS = 3
"""Past tokens of a convolution, kernel 4 less one, as all models have that vLLM speculates with."""
STATE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@once_each
def kinds_of_states(structure: ModelStructure) -> tuple[tuple[StateEntry, ...], ...]:
    """What layers keep a request, each kind once; layers without a state are one of them."""
    return tuple(dict.fromkeys(group.states for group in structure.groups if group.layers))


def has_states(structure: ModelStructure) -> bool:
    """Whether some layer keeps a recurrent state."""
    return any(kinds_of_states(structure))


@once_each
def has_caches(structure: ModelStructure) -> bool:
    """Whether some layer keeps something of every token."""
    return any(group.caches and group.layers for group in structure.groups)


def state_bytes(states: Iterable[StateEntry], question: KvQuestion) -> int:
    """All tensors of one layer's state on one rank."""
    return sum(_entry_bytes(entry, question) for entry in states)


def _entry_bytes(entry: StateEntry, question: KvQuestion) -> int:
    shards = question.tensor_parallel
    extra = shards - entry.groups if entry.groups and entry.groups % shards else 0
    elements = (entry.elements + (entry.groups + extra) * entry.elements_per_group) // shards
    if entry.name == "conv" and question.speculative_tokens:
        elements = elements * (CONVOLVED_TOKENS + question.speculative_tokens) // CONVOLVED_TOKENS
    return elements * STATE_BYTES.get(entry.dtype, 2)


def cache_mode(structure: ModelStructure, question: KvQuestion) -> str:
    """The mamba cache mode; models of recurrent layers alone have no prefix caching."""
    return "align" if question.prefix_caching and has_caches(structure) else "none"


def reach(structure: ModelStructure, question: KvQuestion, tokens: int) -> Reach:
    """How far a request of so many tokens reaches."""
    return Reach(
        tokens=tokens,
        in_flight=question.in_flight_tokens,
        context_parallel=question.decode_context_parallel,
        state_blocks=MODE_BLOCKS[cache_mode(structure, question)] + question.speculative_tokens,
        retained=question.retained_tokens,
    )
