"""Tokens of a block: vLLM's default, and how it grows until a page of the attention holds a recurrent state.

Source: vLLM 0.32 `platforms/interface.py` (`update_block_size_for_backend`, `_align_hybrid_block_size`),
`platforms/cpu.py`; 0.19 `model_executor/models/config.py` (`HybridAttentionMambaModelConfig`).
"""

from dataclasses import dataclass

from autoadapter.artifacts import CacheEntry, ModelStructure
from autoadapter.once import once_each
from autoadapter.plan.kv.question import KvQuestion
from autoadapter.plan.kv.spec import ceil_div
from autoadapter.plan.kv.states import kinds_of_states, state_bytes
from autoadapter.plan.kv.widths import attention_row, element_bytes

DEFAULT_BLOCK = {"cuda": 16, "cpu": 128}
CPU_MLA_BLOCK = 16
SPARSE_BLOCK = 64
"""Kernels of sparse attention (DSA) on CUDA."""
COMPRESSED_BLOCK = 256
"""DeepSeek-V4: the only size that its kernels take."""
KERNEL_BLOCK = {"cuda": 16, "cpu": 32}
"""Smallest block of the common kernels: FlashAttention, FlashInfer and Triton; CPU attention."""
MLA_STEP = 128
OLD_STEP, OLD_MLA_STEP = 16, 64


@dataclass(frozen=True)
class Blocks:
    """Settled sizes."""

    attention: int
    """Tokens."""
    kernel: int
    """Tokens of the kernel's smallest block."""
    state_page: int | None
    """Bytes that a state's page is padded to; None as it is."""


@once_each
def entries(structure: ModelStructure) -> tuple[CacheEntry, ...]:
    """Cache entries of all layers, each once, in the order of the kinds of layers."""
    return tuple(dict.fromkeys(entry for group in structure.groups if group.layers for entry in group.caches))


@once_each
def is_compressed(structure: ModelStructure) -> bool:
    """Whether several tokens share an entry, as in DeepSeek-V4."""
    return any(entry.tokens_per_entry > 1 for entry in entries(structure))


def uses_mla(structure: ModelStructure) -> bool:
    """Whether the layers keep latents."""
    return any(entry.kind == "mla" for entry in entries(structure))


def rank_heads(entry: CacheEntry, question: KvQuestion) -> int:
    """Key/value heads of one rank: divided, and repeated beyond that. Source: vLLM 0.32 `get_num_kv_heads`."""
    return 1 if entry.kind in ("mla", "indexer") else max(1, entry.kv_heads // question.tensor_parallel)


def default_block(structure: ModelStructure, question: KvQuestion) -> int:
    """Tokens of a block before alignment."""
    kinds = {entry.kind for entry in entries(structure)}
    if is_compressed(structure):
        return COMPRESSED_BLOCK
    if question.device == "cpu" and "mla" in kinds:
        return CPU_MLA_BLOCK
    if question.block_size is not None:
        return question.block_size
    if question.device == "cuda" and {"mla", "indexer"} <= kinds:
        return SPARSE_BLOCK
    return DEFAULT_BLOCK[question.device]


@once_each
def settle_blocks(structure: ModelStructure, question: KvQuestion) -> Blocks:
    """Block sizes, after attention and states were made to share a page."""
    block, kernel = default_block(structure, question), KERNEL_BLOCK[question.device]
    state = max((state_bytes(states, question) for states in kinds_of_states(structure)), default=0)
    token = _token_bytes(structure, question)
    if not state or not token:
        return Blocks(block, kernel, None)
    step = _step(structure, question, max(kernel, block))
    block = max(block, step * ceil_div(state, step * token))
    page = block * token
    return Blocks(block, kernel, None if page == state else page)


def _step(structure: ModelStructure, question: KvQuestion, least: int) -> int:
    rules, mla = question.rules, uses_mla(structure)
    if not rules.aligns_to_block_size:
        return OLD_MLA_STEP if mla else OLD_STEP
    return max(least, MLA_STEP) if mla and rules.aligns_mla_to_128 else least


def _token_bytes(structure: ModelStructure, question: KvQuestion) -> int:
    """Bytes of one token in one attention layer, values taken to be as wide as keys; 0 without attention."""
    kept = sorted(entries(structure), key=lambda entry: entry.kind != "mla")
    entry = next((entry for entry in kept if entry.kind != "indexer"), None)
    if entry is None:
        return 0
    if entry.kind == "mla":
        return entry.key_dim * element_bytes(question.kv_cache_dtype, question.model_dtype)
    square = entry.model_copy(update={"value_dim": entry.key_dim})
    return attention_row(square, rank_heads(entry, question), question.kv_cache_dtype, question.model_dtype)
