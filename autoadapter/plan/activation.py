"""Peak of activations in vLLM's profile run, from shapes: the larger of a forward pass and the sampler's dummy run.

Learned from start-up logs by leaving each architecture out in turn (tests/unit/plan/test_accuracy.py):

- forward: two buffers of gate and up, one of the product, four of the hidden size, for max-num-batched-tokens.
- sampler: bytes per logit × vocabulary × max-num-seqs, beside the hidden states of the step. vLLM's second model
  runner has no sort in its dummy run, and was seen to hold a second copy of the output head instead.
- experts: workspaces of the fused kernels, `tokens × top-k × (max(N/2, K) + max(N, K))` elements with N twice the
  experts' width on the rank and K the hidden size; they outlive their layer (vLLM 0.32
  `fused_moe/modular_kernel.py`) and are not there yet while dense layers before them run.
- a vision or audio tower leaves its output for the encoder's whole budget of tokens, twice.
"""

from dataclasses import dataclass

from autoadapter.artifacts import ModelProfile
from autoadapter.plan.legality import Layout
from autoadapter.plan.overhead_rows import OverheadRow


@dataclass(frozen=True)
class Batch:
    """How much one engine takes on at once."""

    max_num_seqs: int
    max_num_batched_tokens: int
    graphs: bool
    """Whether CUDA graphs are captured (no `enforce-eager`)."""


def activation_bytes(profile: ModelProfile, layout: Layout, batch: Batch, row: OverheadRow) -> tuple[int, ...]:
    """Peak on a rank of each pipeline stage, bytes. Only the last stage samples."""
    element = 4 if profile.memory.served_dtype == "float32" else 2
    hidden, tokens = profile.embedding.hidden_size, batch.max_num_batched_tokens
    forward = element * tokens * (3 * _width(profile) // layout.tensor + 4 * hidden)
    states = element * tokens * hidden
    buffers = _expert_buffers(profile, layout, tokens, row) * element
    tower = 2 * states if profile.structure.encoders else 0
    sparse = buffers + 4 * states if profile.moe else 0
    last = max(forward, sparse, states + _sampler(profile, layout, batch, row, element) + buffers) + tower
    first = max(forward, sparse) + states + tower
    return (*[first] * (layout.pipeline - 1), last)


def _sampler(profile: ModelProfile, layout: Layout, batch: Batch, row: OverheadRow, element: int) -> int:
    vocab = profile.embedding.vocab_size
    wider = element - 2
    logits = int((row.sampler_bytes_per_logit + wider) * vocab * batch.max_num_seqs)
    if not row.head_copy:
        return logits
    hidden = profile.embedding.hidden_size
    return max(logits, element * vocab * hidden // layout.tensor + element * batch.max_num_batched_tokens * hidden)


def _width(profile: ModelProfile) -> int:
    """Features of the widest token-wise block that is not made of experts."""
    dense = profile.mlp.intermediate_size if profile.mlp else 0
    moe = profile.moe
    if moe is None or moe.num_dense_layers:
        return dense
    return moe.num_shared_experts * moe.moe_intermediate_size


def _expert_buffers(profile: ModelProfile, layout: Layout, tokens: int, row: OverheadRow) -> int:
    """Elements of the workspaces of fused experts."""
    moe, quantization = profile.moe, profile.quantization
    if moe is None or not row.expert_workspace:
        return 0
    if quantization is not None and quantization.method in row.unpacked_experts:
        return 0
    ranks = 1 if layout.expert_parallel else layout.tensor * layout.data
    width = max(1, moe.moe_intermediate_size // ranks)
    wide = moe.latent_size or profile.embedding.hidden_size
    return tokens * moe.num_experts_per_tok * (max(width, wide) + max(2 * width, wide))
