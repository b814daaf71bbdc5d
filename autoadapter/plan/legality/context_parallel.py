"""Decode context parallelism: the KV cache of a request spread over ranks of a tensor-parallel group."""

from autoadapter.artifacts import ModelProfile
from autoadapter.plan.legality.layout import Refusal
from autoadapter.plan.legality.sizes import is_latent, kv_heads

SOURCE = "vLLM 0.32 config/model.py verify_with_parallel_config (decode_context_parallel_size)"
GROUP_SOURCE = "vLLM 0.32 config/parallel.py: TP must be divisible by decode_context_parallel_size"


def decode_context_refusal(profile: ModelProfile, tensor: int, context: int) -> Refusal | None:
    """Why `--decode-context-parallel-size` `context` is refused under TP `tensor`, or None.

    MLA takes every divisor of TP, and then keeps a part of the latent on each rank. Elsewhere only ranks that would
    repeat a key/value head can share its tokens.
    """
    if context == 1:
        return None
    if tensor % context:
        return Refusal(f"tensor parallelism of {tensor} cannot be divided by {context}", GROUP_SOURCE)
    counts = kv_heads(profile)
    if is_latent(profile) or not counts:
        return None
    heads = counts[-1][0]
    if tensor <= heads or context > tensor // heads:
        reason = f"{heads} key/value heads over {tensor} ranks leave {max(1, tensor // heads)} copies to share, not "
        return Refusal(reason + str(context), SOURCE)
    ratio = profile.attention.num_attention_heads // heads
    if ratio % context:
        return Refusal(f"{ratio} query heads a key/value head cannot be divided by {context}", SOURCE)
    return None
