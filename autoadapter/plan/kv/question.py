"""What the size of the cache depends on beside the model's structure."""

from dataclasses import dataclass
from typing import Literal

from autoadapter.plan.kv.rules import Rules, rules_of

MODE_BLOCKS = {"none": 1, "align": 2}
"""State blocks of one request by vLLM's mamba cache mode; speculative tokens add one each."""


@dataclass(frozen=True)
class KvQuestion:
    """The flags and facts of one replica. Data parallelism repeats the answer, it does not change it."""

    max_model_len: int
    """Tokens."""
    max_num_batched_tokens: int = 8192
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    decode_context_parallel: int = 1
    kv_cache_dtype: str = "auto"
    """`--kv-cache-dtype`, vLLM's own word."""
    model_dtype: str = "bfloat16"
    """What `auto` stands for."""
    block_size: int | None = None
    """`--block-size`, tokens; None leaves it to vLLM."""
    device: Literal["cuda", "cpu"] = "cuda"
    prefix_caching: bool = True
    """It keeps recurrent states in mode `align`: two blocks a request instead of one."""
    hybrid_manager: bool = True
    """False as with `--disable-hybrid-kv-cache-manager`: every layer holds every token."""
    speculative_tokens: int = 0
    multi_module_predictor: bool = False
    """Whether each speculative token has a module of its own (multi-token prediction in several modules)."""
    async_scheduling: bool = True
    batches_in_flight: int | None = None
    """Batches that are scheduled and not yet settled; None follows from scheduling and pipeline stages."""
    longest_model_len: int | None = None
    """Where the search for the longest request ends, the model's own limit; None: `max_model_len`."""
    vllm_version: str = "0.32.0"

    @property
    def rules(self) -> Rules:
        """How this version counts."""
        return rules_of(self.vllm_version)

    @property
    def in_flight_tokens(self) -> int:
        """Tokens that a window holds beside itself. Source: vLLM 0.32 `VllmConfig.max_in_flight_tokens`."""
        if not self.rules.counts_batches_in_flight:
            return self.max_num_batched_tokens
        return (self.batches_in_flight or self._batches()) * self.max_num_batched_tokens

    def _batches(self) -> int:
        """Source: vLLM 0.32 `VllmConfig.max_concurrent_batches`."""
        stages = self.pipeline_parallel
        overlaps = self.async_scheduling and (stages == 1 or self.rules.runs_model_runner_v2)
        return stages + 1 if overlaps else stages

    @property
    def retained_tokens(self) -> int:
        """Tokens below a window that several predictor modules may read again."""
        retains = self.multi_module_predictor and self.rules.retains_tokens_of_modules
        return max(0, self.speculative_tokens - 1) if retains else 0
