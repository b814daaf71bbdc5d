"""What changed in vLLM's cache accounting, and since which version. The one place that knows versions.

Read in `v1/core/kv_cache_utils.py`, `v1/kv_cache_interface.py`, `config/vllm.py`, `platforms/interface.py` and
`model_executor/layers/attention/attention.py` of vLLM 0.19 to 0.32, release by release.
"""

from dataclasses import dataclass, replace
from functools import cache

from autoadapter.engine.versions import release
from autoadapter.errors import UserError

OLDEST = (0, 19)
"""The oldest version that was read; older ones are computed by its rules."""


@dataclass(frozen=True)
class Rules:
    """How one version counts. The defaults are those of the oldest."""

    prints_concurrency_tokens: bool = False
    """"KV cache size" is `int(max_concurrency × max_model_len)`; before, `blocks // groups × block_size`."""
    values_have_own_width: bool = False
    """A window's page counts keys and values apart; before, the key's width twice."""
    aligns_to_block_size: bool = False
    """Blocks grow to hold a state in steps of the block size; before, of 16 tokens, 64 under MLA."""
    pads_attention_pages: bool = False
    """A smaller attention page that does not divide the largest is padded; before, vLLM refused."""
    windows_take_smallest_block: bool = False
    """Layers that slide start from the kernel's smallest block instead of `--block-size`."""
    windows_take_kernel_blocks: bool = False
    """Their blocks are whole ones of the kernel, as many as fit into `--block-size`."""
    counts_batches_in_flight: bool = False
    """Windows hold the tokens of all batches in flight; before, of one."""
    pads_state_pages: bool = False
    """A state's page is padded to a larger one of the attention; before, vLLM refused."""
    holds_windows_in_full_blocks: bool = False
    """Windows that are held in full take the blocks of the full layers; before, they kept their own."""
    falls_back_to_full: bool = False
    """Windows beside MLA are held in full where their pages cannot be made equal."""
    aligns_mla_to_128: bool = False
    """Under MLA blocks grow in steps of at least 128 tokens."""
    has_no_all_mode: bool = False
    """Prefix caching keeps states in mode `align`; before, models with support for it took mode `all`."""
    retains_tokens_of_modules: bool = False
    """Windows keep tokens that several predictor modules read again."""
    reserves_null_block: bool = False
    """The block that is never handed out is counted where vLLM checks that one request fits."""
    packs_pages: bool = False
    """Pages of different sizes may lie side by side in a block (DeepSeek-V4)."""
    cannot_hold_latent_windows: bool = False
    """Without the hybrid manager windows of latents end vLLM at start."""
    runs_model_runner_v2: bool = False
    """Asynchronous scheduling adds a batch in flight under pipeline parallelism too."""


CHANGES: tuple[tuple[tuple[int, int], tuple[str, ...]], ...] = (
    ((0, 20), ("values_have_own_width", "aligns_to_block_size")),
    ((0, 21), ("prints_concurrency_tokens",)),
    ((0, 24), ("pads_attention_pages",)),
    ((0, 25), ("windows_take_smallest_block",)),
    ((0, 26), ("counts_batches_in_flight", "pads_state_pages")),
    ((0, 27), ("holds_windows_in_full_blocks", "falls_back_to_full", "aligns_mla_to_128")),
    ((0, 28), ("has_no_all_mode", "retains_tokens_of_modules")),
    ((0, 29), ("reserves_null_block", "packs_pages", "runs_model_runner_v2")),
    ((0, 30), ("windows_take_smallest_block", "windows_take_kernel_blocks")),
    ((0, 31), ("cannot_hold_latent_windows",)),
)
"""Since a version these rules are the other way round."""


@cache
def rules_of(version: str) -> Rules:
    """The rules of a vLLM version such as `0.25.1` or `0.24.0+build`; of a build without a number the newest."""
    number = _number(version)
    rules = Rules()
    for since, names in CHANGES:
        if number >= since:
            rules = replace(rules, **{name: not getattr(rules, name) for name in names})
    return rules


def is_unread(version: str) -> bool:
    """Whether a version is older than the oldest that was read."""
    return _number(version) < OLDEST


def _number(version: str) -> tuple[int, ...]:
    try:
        return release(version)
    except UserError:
        return CHANGES[-1][0]
