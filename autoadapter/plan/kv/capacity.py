"""How many blocks, requests and tokens a pool holds.

Source: vLLM 0.32 `v1/core/kv_cache_utils.py` (`get_kv_cache_configs`, `_get_kv_cache_bytes_per_block`,
`get_max_concurrency_for_kv_cache_config`, `_estimate_max_model_len_from_groups`); 0.19 `_report_kv_cache_config`.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from autoadapter.artifacts import KvCapacity, ModelStructure
from autoadapter.once import once_each
from autoadapter.plan.kv.alignment import is_compressed, settle_blocks
from autoadapter.plan.kv.build import build_specs
from autoadapter.plan.kv.groups import group_caches
from autoadapter.plan.kv.question import KvQuestion
from autoadapter.plan.kv.refusal import KvRefusedError
from autoadapter.plan.kv.rules import rules_of
from autoadapter.plan.kv.spec import WINDOWS, Group, Reach, Spec
from autoadapter.plan.kv.states import reach
from autoadapter.plan.weights import stages

Pool = int | Sequence[int]
"""Bytes for the cache on a rank: of every pipeline stage, or one number for all."""


@dataclass(frozen=True)
class KvLayout:
    """Everything about the cache that does not depend on the size of the pool."""

    structure: ModelStructure
    question: KvQuestion
    groups: tuple[Group, ...]
    stage_bytes: tuple[int, ...]
    """Bytes of a block on a rank of each pipeline stage; 0 where no layer keeps anything."""

    @property
    def bytes_per_block(self) -> int:
        """On the stage that keeps most."""
        return max(self.stage_bytes, default=0)

    @property
    def block_size(self) -> int:
        """Tokens of a block of the layers that keep every token: `--block-size` once vLLM has settled it.

        Layers with smaller pages may have larger blocks, and those of compressors have smaller ones.
        """
        return settle_blocks(self.structure, self.question).attention

    @cached_property
    def _kinds(self) -> tuple[tuple[Spec, ...], ...]:
        return tuple(group.specs for group in self.groups)

    @cached_property
    def _reach(self) -> Reach:
        return reach(self.structure, self.question, self.question.max_model_len)

    @property
    def token_bytes(self) -> int:
        """Bytes of one token on a rank of the fullest stage, in all layers that keep tokens, without any padding."""
        spans = stages(self.structure.num_layers, self.question.pipeline_parallel)
        members = [member for group in self.groups for member in group.members if member.spec.kind != "state"]
        return max(sum(member.spec.token_bytes for member in members if member.layer in span) for span in spans)

    def blocks_for(self, tokens: int) -> int:
        """Blocks of the shared pool that one request of so many tokens takes, all groups together."""
        here = replace(self._reach, tokens=tokens)
        return sum(max(spec.blocks(here) for spec in specs) for specs in self._kinds)

    def request_bytes(self, tokens: int) -> int:
        """Bytes of those blocks on a rank of the fullest stage."""
        return self.blocks_for(tokens) * self.bytes_per_block

    def needed_bytes(self, max_model_len: int) -> int:
        """Bytes that a rank of the fullest stage must have before vLLM starts with such a context."""
        return self.request_bytes(max_model_len) + self._reserve * self.bytes_per_block

    @property
    def _reserve(self) -> int:
        return int(self.question.rules.reserves_null_block)

    def blocks(self, pool: Pool) -> int:
        """Blocks of the pool: those of the stage that has fewest."""
        counts = [max(0, have) // size for have, size in zip(self._pools(pool), self.stage_bytes, strict=True) if size]
        return min(counts, default=1)

    def longest(self, pool: Pool, limit: int) -> int:
        """Tokens of the longest request that the pool holds, at most `limit`; 0 when not one token fits."""
        usable = self.blocks(pool) - (self._reserve if self.groups else 0)
        return bisect_right(range(1, limit + 1), usable, key=self.blocks_for)

    def _pools(self, pool: Pool) -> tuple[int, ...]:
        return (pool,) * len(self.stage_bytes) if isinstance(pool, int) else tuple(pool)

    def capacity(self, pool: Pool) -> KvCapacity:
        """What the pool holds in requests of `max_model_len`."""
        question, blocks = self.question, self.blocks(pool)
        each = self.blocks_for(question.max_model_len)
        concurrency = blocks / each if each else 0.0
        smallest = min((group.block_size for group in self.groups), default=0)
        return KvCapacity(
            block_size=self.block_size,
            bytes_per_block=self.bytes_per_block,
            blocks=blocks,
            blocks_per_request=each,
            max_concurrency=concurrency,
            tokens=int(concurrency * question.max_model_len),
            tokens_in_blocks=blocks // max(1, len(self.groups)) * smallest * question.decode_context_parallel,
            longest=self.longest(pool, question.longest_model_len or question.max_model_len),
        )


def kv_layout(structure: ModelStructure, question: KvQuestion) -> KvLayout:
    """Groups and blocks of a model on each rank.

    Raises:
        KvRefusedError: vLLM would refuse these layers under these flags.
    """
    groups = _groups(structure, question)
    if question.decode_context_parallel > 1 and any(group.kinds & WINDOWS for group in groups):
        raise KvRefusedError(
            "vLLM has no decode context parallelism for layers with a sliding window.",
            hint="Leave out --decode-context-parallel-size",
        )
    return KvLayout(structure, question, groups, _stage_bytes(structure, question))


@once_each
def _groups(structure: ModelStructure, question: KvQuestion) -> tuple[Group, ...]:
    return group_caches(
        build_specs(structure, question),
        question.rules,
        hybrid_manager=question.hybrid_manager,
        block_outermost=is_compressed(structure),
    )


@once_each
def _stage_bytes(structure: ModelStructure, question: KvQuestion) -> tuple[int, ...]:
    groups = _groups(structure, question)
    spans = stages(structure.num_layers, question.pipeline_parallel)
    sizes = tuple(max((group.page_bytes(span) for group in groups), default=0) for span in spans)
    if any(sizes) and not all(sizes):
        raise KvRefusedError(
            f"Of {len(sizes)} pipeline stages one has no layer that keeps a cache, and vLLM does not start so.",
            hint="Fewer stages: --pipeline-parallel-size",
        )
    return sizes


def kv_capacity(structure: ModelStructure, question: KvQuestion, available_bytes: Pool) -> KvCapacity:
    """What `available_bytes` of cache hold, as vLLM counts it.

    Args:
        structure: of the model.
        question: flags and version.
        available_bytes: of a rank; one number, or one for each pipeline stage.

    Raises:
        KvRefusedError: vLLM would refuse these layers under these flags.
    """
    return kv_layout(structure, question).capacity(available_bytes)


def request_bytes(structure: ModelStructure, question: KvQuestion, tokens: int) -> int:
    """Bytes that one request of so many tokens takes on a rank of the fullest stage, in whole blocks."""
    return kv_layout(structure, question).request_bytes(tokens)


def needed_bytes(structure: ModelStructure, question: KvQuestion, max_model_len: int) -> int:
    """Bytes that a rank of the fullest stage must have before vLLM starts with such a context."""
    return kv_layout(structure, question).needed_bytes(max_model_len)


def longest_request(structure: ModelStructure, question: KvQuestion, available_bytes: Pool, limit: int) -> int:
    """Tokens of the longest request that the pool holds, at most `limit`; 0 when not one token fits."""
    return kv_layout(structure, question).longest(available_bytes, limit)


def printed_tokens(capacity: KvCapacity, vllm_version: str) -> int:
    """The number that this version prints as "KV cache size"."""
    return capacity.tokens if rules_of(vllm_version).prints_concurrency_tokens else capacity.tokens_in_blocks
