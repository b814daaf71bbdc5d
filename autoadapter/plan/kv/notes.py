"""Where the answer is not exact, and why."""

from collections.abc import Iterator

from autoadapter.artifacts import ModelStructure
from autoadapter.plan.kv.alignment import entries, is_compressed
from autoadapter.plan.kv.question import KvQuestion
from autoadapter.plan.kv.rules import is_unread
from autoadapter.plan.kv.states import has_caches, has_states
from autoadapter.plan.kv.widths import is_known


def kv_notes(structure: ModelStructure, question: KvQuestion) -> tuple[str, ...]:
    """One sentence for each reason why the real cache may differ; none where the account is exact."""
    return tuple(_notes(structure, question))


def _notes(structure: ModelStructure, question: KvQuestion) -> Iterator[str]:
    rules, version = question.rules, question.vllm_version
    kinds = {entry.kind for entry in entries(structure)}
    if not has_caches(structure) and not has_states(structure):
        yield "No layer keeps a cache: requests are limited by max-num-seqs alone."
    if is_unread(version):
        yield f"vLLM {version} is older than 0.19 and counted as 0.19 counts."
    if not is_known(question.kv_cache_dtype):
        yield f"The bytes of the cache type {question.kv_cache_dtype} are not known; it is counted as 16 bit."
    if is_compressed(structure):
        yield "Compressed caches are counted as FlashMLA keeps them on Hopper; FlashInfer keeps plain rows."
        if not rules.packs_pages:
            yield f"Compressed caches are counted as vLLM 0.29 and newer pack them, not as {version} does."
    if {"mla", "indexer"} <= kinds and question.kv_cache_dtype.startswith("fp8") and question.device == "cuda":
        yield "Sparse attention keeps FP8 in 656 bytes a token, as on Hopper; on Blackwell it may take fewer."
    if has_states(structure) and question.prefix_caching and not rules.has_no_all_mode:
        yield f"Prefix caching of states is counted as mode align; vLLM {version} takes mode all for some models."
    if question.speculative_tokens:
        yield "The layers of the draft keep a cache of their own, which is not counted."
    if has_states(structure) and question.speculative_tokens:
        yield "Speculative tokens widen convolved states: the kernel is taken to be 4, the layers not to be Mamba-1."
