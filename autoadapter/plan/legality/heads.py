"""Attention and key/value heads."""

from autoadapter.artifacts import ModelProfile
from autoadapter.plan.legality.layout import Refusal
from autoadapter.plan.legality.sizes import is_latent, kv_heads, query_heads

HEADS_SOURCE = "vLLM 0.32 config/model.py verify_with_parallel_config; layers/linear.py QKVParallelLinear"
KV_SOURCE = "vLLM 0.32 layers/linear.py QKVParallelLinear: divide(heads, TP) or divide(TP, heads)"
MOST_LAYERS_NAMED = 3


def attention_heads(profile: ModelProfile, tensor: int) -> Refusal | None:
    """Every layer's attention heads must be divisible by TP."""
    heads = next((count for count in query_heads(profile) if count % tensor), None)
    if heads is None:
        return None
    legal = [str(size) for size in range(1, heads + 1) if heads % size == 0]
    remedy = f"{heads} heads can be divided by {', '.join(legal)}; more GPUs can be replicas or pipeline stages"
    return Refusal(f"{heads} attention heads cannot be divided by {tensor}", HEADS_SOURCE, remedy)


def key_value_heads(profile: ModelProfile, tensor: int) -> Refusal | None:
    """Every layer's key/value heads must be divided by TP, or repeated a whole number of times."""
    if is_latent(profile):
        return None
    counts = kv_heads(profile)
    for heads, layers in counts:
        if (heads % tensor) if tensor < heads else (tensor % heads):
            where = "" if len(counts) == 1 else f" of layer {_named(layers)}"
            reason = f"{heads} key/value heads{where} can be neither divided nor repeated over {tensor}"
            return Refusal(reason, KV_SOURCE)
    return None


def _named(layers: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, layers[:MOST_LAYERS_NAMED]))
    return f"{shown}, …" if len(layers) > MOST_LAYERS_NAMED else shown


def kv_copies(profile: ModelProfile, tensor: int) -> int:
    """How many ranks hold the same key/value head in the layer where that is most; 1 where none is repeated."""
    if is_latent(profile):
        return tensor
    return max((tensor // heads for heads, _ in kv_heads(profile) if tensor > heads), default=1)
